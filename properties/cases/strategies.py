"""Hypothesis strategies for all cases that a contract allows, and for their tensors.

A case shrinks well, because it is a few small values from which its tensors are derived. With the
same Hypothesis seed the same cases are drawn, whichever modules are loaded: see `draw_from`.
"""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, TypeVar

import torch
from hypothesis import HealthCheck, Phase, find, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException, InvalidArgument, NoSuchExample
from hypothesis.strategies import DrawFn, SearchStrategy
from torch import Tensor

from headcheck.properties.bounds.oracle import Expected, compute_expected
from headcheck.properties.cases.case_tensors import DTYPES, make_parameters, make_tokens
from headcheck.properties.cases.case_text import format_case
from headcheck.properties.cases.case_transforms import CaseTransform, identity, transform_cases
from headcheck.properties.cases.fitting_mask import make_fitting_mask
from headcheck.properties.cases.small_cases import list_smaller_values
from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.contracts.variant import find_visible
from headcheck.properties.counting import count
from headcheck.properties.terms.case import Case, InputContent, MaskForm, MaskType, MemoryLayout
from headcheck.properties.terms.size_rules import SizeRules
from headcheck.reference import Parameters

T = TypeVar("T")
OFFSET = 0x6A09_E667 << 32  # written out, it would be such a constant itself: see `draw_from`
USUAL_SIZES = {"tokens": 12, "heads": 5, "head_dim": 6, "batch": 3, "d_in": 8}
"""Sizes up to these are equally likely. At most one size of a case is larger, so cases stay
cheap."""
EDGES = sorted({2**n + step for n in range(2, 17) for step in (-1, 0, 1)} | {80, 96, 160, 300})
"""Large sizes at which real code takes another path."""
CONTENTS = (InputContent.NORMAL,) * 5 + tuple(InputContent)[1:]
DROPOUTS = (0.0, 0.1, 0.5)


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


def cases(
    contract: Contract,
    *,
    max_tokens: int = USUAL_SIZES["tokens"],
    max_heads: int = USUAL_SIZES["heads"],
    max_head_dim: int = USUAL_SIZES["head_dim"],
    max_batch: int = USUAL_SIZES["batch"],
    max_d_in: int = USUAL_SIZES["d_in"],
    dtypes: Sequence[str] = ("float64",),
    devices: Sequence[str] = ("cpu",),
    contents: Iterable[InputContent] = CONTENTS,
    layouts: Iterable[MemoryLayout] = tuple(MemoryLayout),
    mask_forms: Iterable[MaskForm] = tuple(MaskForm),
    mask_types: Iterable[MaskType] = tuple(MaskType),
    transform: CaseTransform = identity,
    sizes: SizeRules | None = None,
) -> SearchStrategy[Case]:
    """Cases that the contract allows; they shrink to one short sequence of small tokens.

    `sizes` restricts the cases to sizes that an implementation supports, and `transform` to cases
    that a property needs. Sizes and options that the contract fixes do not vary.

    Raises InvalidArgument if there is nothing to draw from, or a dtype is unknown, and BadSizes if
    no case has these sizes.
    """
    most = {
        "tokens": max_tokens,
        "heads": max_heads,
        "head_dim": max_head_dim,
        "batch": max_batch,
        "d_in": max_d_in,
    }
    options: dict[str, Sequence[Any]] = {
        "bias": (False, True),
        "dropout": DROPOUTS,
        "sharpness": range(1, 9),
        "content": tuple(contents),
        "memory": tuple(layouts),
        "mask_form": tuple(mask_forms),
        "mask_type": tuple(mask_types),
        "dtype": tuple(dtypes),
        "device": tuple(devices),
    }
    _validate(most, options)
    allowed = contract if sizes is None else contract.with_sizes(sizes)
    drawn = _draw_case(*_keep_free(allowed, most, options)).map(allowed.fit)
    if transform is identity:
        return drawn
    # Several of these draws may give the same case, and some none that the contract allows.
    changed = drawn.map(lambda case: transform_cases(allowed, transform, [case]))
    return changed.filter(bool).map(lambda found: found[0])


def attention_inputs(contract: Contract, **options: Any) -> SearchStrategy[CaseInputs]:
    """The tensors of cases, and the exact answers to them; takes the options of `cases`."""
    return cases(contract, **options).map(lambda case: CaseInputs(contract, case))


def smaller_cases(case: Case) -> SearchStrategy[Case]:
    """Cases without any larger value than this case: the candidates for a simpler example."""
    fields = list_smaller_values(case)
    return st.builds(Case, **{name: st.sampled_from(fields[name]) for name in fields})


def draw_from(draw: DrawFn, values: Sequence[T]) -> T:
    """Draw one of these values; it shrinks to the first.

    `st.sampled_from` and `st.integers` also try constants from the loaded modules, and so draw
    different examples for different subjects or processes. No module contains numbers around
    `OFFSET`.
    """
    return values[draw(_make_numbers(len(values))) - OFFSET]


@cache
def _make_numbers(count: int) -> SearchStrategy[int]:
    """Numbers from `OFFSET` on; a strategy takes as long to make as to draw from many times."""
    return st.integers(OFFSET, OFFSET + count - 1)


@st.composite
def _draw_case(draw: DrawFn, most: Mapping[str, int], options: Mapping[str, Sequence[Any]]) -> Case:
    larger = [name for name in most if most[name] > USUAL_SIZES[name]]
    # More faults wait for a length than for another size.
    large = draw_from(draw, ["", "", *larger[:1], *larger]) if larger else ""
    values: dict[str, Any] = {
        name: draw_from(draw, range(1, min(most[name], USUAL_SIZES[name]) + 1)) for name in most
    }
    if large:
        values[large] = draw_from(draw, _list_large_sizes(USUAL_SIZES[large], most[large]))
    values |= {name: draw_from(draw, choices) for name, choices in options.items()}
    return Case(
        context_length=values["tokens"] + draw_from(draw, range(max(1, values["tokens"]))),
        seed=draw_from(draw, range(1000)),
        **values,
    )


def _keep_free(
    contract: Contract, most: Mapping[str, int], options: Mapping[str, Sequence[Any]]
) -> tuple[dict[str, int], dict[str, Sequence[Any]]]:
    """Return the sizes and options that the contract would not change."""

    def get_size(name: str, size: int) -> int:
        sizes: dict[str, Any] = {"tokens": 1, "context_length": most["tokens"], name: size}
        value: int = getattr(contract.fit(Case(**sizes)), name)
        return value

    def is_kept(name: str, value: Any) -> bool:
        masked: dict[str, Any] = {"mask_form": options["mask_form"][-1], name: value}
        kept: bool = getattr(contract.fit(Case(**masked)), name) == value
        return kept

    free = {name: get_size(name, 1) != get_size(name, size) for name, size in most.items()}
    sizes = {name: size if free[name] else 1 for name, size in most.items()}
    kept = {name: [v for v in values if is_kept(name, v)] for name, values in options.items()}
    return sizes, {name: kept[name] or values[:1] for name, values in options.items()}


def _list_large_sizes(usual: int, most: int) -> list[int]:
    """Return all sizes in order, so that they shrink; edges are repeated so that half are edges."""
    anything = range(usual + 1, most + 1)
    edges = [edge for edge in EDGES if edge in anything]
    return sorted([*anything, *edges * (len(anything) // max(1, len(edges)))])


def _validate(most: Mapping[str, int], options: Mapping[str, Sequence[Any]]) -> None:
    small = [f"max_{name} >= 1" for name in most if most[name] < 1]
    empty = [f"a {name}" for name in options if not options[name]]
    if small or empty:
        raise InvalidArgument(f"cases() needs {', '.join(small + empty)}")
    if unknown := sorted(set(options["dtype"]) - set(DTYPES)):
        raise InvalidArgument(f"no dtypes of a case: {unknown}; there are {list(DTYPES)}")


def shrink(start: Case, fails: Callable[[Case], bool]) -> None:
    """Call `fails`, which stores the results, on smaller cases until Hypothesis finds a minimum.

    Nothing is raised if no case fails or if a failure cannot be reproduced.
    """
    with contextlib.suppress(NoSuchExample, HypothesisException):
        find(smaller_cases(start), fails, settings=SHRINKING)


SHRINKING = settings(
    max_examples=60,
    derandomize=True,
    database=None,
    deadline=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
)
