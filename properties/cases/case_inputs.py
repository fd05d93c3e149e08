"""The tensors of a case as an implementation takes them, and the exact answer."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from headcheck.properties.bounds.oracle import Expected, compute_expected
from headcheck.properties.cases.case_tensors import DTYPES, make_parameters, make_tokens
from headcheck.properties.cases.case_text import format_case
from headcheck.properties.cases.fitting_mask import make_fitting_mask
from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.contracts.variant import find_visible
from headcheck.properties.counting import count
from headcheck.properties.terms.case import Case, MemoryLayout
from headcheck.reference import Parameters


@dataclass(frozen=True, eq=False, repr=False)
class CaseInputs:
    """The inputs of an implementation: a case, with its tensors in its dtype and layout."""

    contract: Contract
    case: Case

    def __repr__(self) -> str:
        return f"CaseInputs({format_case(self.case)!r})"

    @cached_property
    def x(self) -> Tensor:
        """The tokens, of shape (batch, tokens, d_in), or (tokens, d_in) without a batch axis."""
        tokens = apply_memory_layout(self._move(self._tokens), self.case.memory)
        return tokens if self.contract.has(Capability.BATCH) else tokens[0]

    @cached_property
    def parameters(self) -> Parameters:
        """The weights and biases by their canonical names, W_q to b_o."""
        return self._parameters.map(self._move)

    @cached_property
    def mask(self) -> Tensor | None:
        """The mask as `forward` takes it: zero or False hides. None if the case has no mask."""
        mask = make_fitting_mask(self.contract, self.case)
        return None if mask is None else mask.to(self.case.device)

    @cached_property
    def may_attend(self) -> Tensor | None:
        """Which token may attend to which: the mask as booleans, or the causal mask if any."""
        mask = make_fitting_mask(self.contract, self.case)
        return find_visible(self.contract, self.case, self.case.tokens, mask)

    @cached_property
    def expected(self) -> Expected:
        """The exact outputs in float64, with a batch axis, and their tolerances."""
        return compute_expected(
            self.contract, self.case, self._tokens, self._parameters, self.may_attend
        )

    def assert_close(self, *outputs: Tensor) -> None:
        """Raise AssertionError unless the outputs are right within the tolerances."""
        rows = zip(outputs, self.expected.outputs, self.expected.tolerances, strict=True)
        for number, (output, exact, tolerance) in enumerate(rows):
            got = output.detach().to("cpu", torch.float64).reshape(exact.shape)
            off = (got - exact).abs()
            # An answer that is no number is nowhere within its tolerance.
            wrong = ~(off <= tolerance.exact)
            if bool(wrong.any()):
                worst = float(off.nan_to_num(nan=torch.inf)[wrong].max())
                raise AssertionError(
                    f"output {number} is off by up to {worst:.6g} in {int(wrong.sum())} of "
                    f"{count(wrong.numel(), 'element')} on {format_case(self.case)}"
                )

    @cached_property
    def _tokens(self) -> Tensor:
        return make_tokens(self.case, self.contract)

    @cached_property
    def _parameters(self) -> Parameters:
        return make_parameters(self.case, self.contract)

    def _move(self, tensor: Tensor) -> Tensor:
        return tensor.to(self.case.device, DTYPES[self.case.dtype])


def apply_memory_layout(x: Tensor, memory: MemoryLayout) -> Tensor:
    """Return the same values in another memory layout.

    The worker, which knows no cases, has its own code for this: `grader.sandbox.worker.calling`.
    """
    match memory:
        case MemoryLayout.CONTIGUOUS:
            return x.contiguous()
        case MemoryLayout.TRANSPOSED:
            return x.transpose(-1, -2).contiguous().transpose(-1, -2)
        case MemoryLayout.EXPANDED:
            return x[:1].expand_as(x)
        case MemoryLayout.SLICED:
            width = x.shape[-1]
            return torch.cat([x + 1, x, x - 1], dim=-1)[..., width : 2 * width]
        case MemoryLayout.MISALIGNED:
            return torch.cat([x.new_zeros(1), x.flatten()])[1:].view(x.shape)
