"""Compare the output of a module with random weights to the outputs of hypotheses."""

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from headcheck.properties.bounds.oracle import get_scale
from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.contracts.variant import get_variant
from headcheck.properties.mistakes.catalogue import EQUATION, ROTARY, SINKS, Mistake
from headcheck.properties.mistakes.catalogue.output import TRIVIAL
from headcheck.properties.mistakes.evaluation import make_attention_inputs
from headcheck.properties.mistakes.mistake_table import Candidate, build_table, make_key
from headcheck.properties.mistakes.pipeline import CORRECT, StepOverrides, run_pipeline
from headcheck.properties.subject import TensorInfo
from headcheck.properties.terms.call_form import TokenAxes
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import Violation
from headcheck.reference import Parameters, causal_mask, multi_head_attention

RELATIVE = 2.0**-17
"""The error that an output may have, relative to its largest number. It is larger than the error of
a scale rounded to float32, and far smaller than the difference of two hypotheses on random numbers.
A match is then confirmed within the bound of `properties.bounds.attention`."""


TURNED_WRONGLY = frozenset(
    {
        "only_queries_turned",
        "only_keys_turned",
        "values_turned_too",
        "keys_turned_the_other_way",
        "angles_and_pairs_differ",
        "sine_not_negated",
        "halves_not_swapped",
        "second_half_from_the_turned_first",
    }
)
"""Mistakes in rotation that are wrong for every base, pairing and direction."""
OTHER_DESIGNS = frozenset(
    {
        "gate_after_the_output_layer",
        "gate_by_another_function",
        "gate_without_sigmoid",
        "gate_of_what_is_attended",
        "gate_added",
        "gate_on_values",
        "gate_on_queries",
        "gate_on_keys",
        "values_normed_too",
        "norm_of_each_head",
        "norm_of_all_heads",
        "other_features",
        "softmax_of_scores",
        "softmax_over_features",
        "shares_not_divided",
    }
)
"""Without a statement, these mistakes count as other kinds of attention: with a gate, a norm, or
other features."""
NOT_TELLING = {
    *TRIVIAL,
    *(each for each in ROTARY if each.name not in TURNED_WRONGLY),
    *(each for each in EQUATION if each.name in OTHER_DESIGNS),
    *(each for each in EQUATION if all("give" in overrides for overrides in each.variants)),
}
TELLING = tuple(each for each in EQUATION if each not in NOT_TELLING)
"""The mistakes whose output still shows which attention was meant. An output of zeros, or of the
input itself, shows nothing."""
SECTIONS = 60
"""the number of search steps for a scale; each cuts a third off the interval, down to 10⁻¹¹ of its
width
"""


@dataclass(frozen=True, eq=False)
class Observation:
    """The input of a call, the module's weights, and the results."""

    x: Tensor
    stored: Mapping[str, Tensor]
    outputs: tuple[Tensor, ...]
    mask: Tensor | None = None
    """who may attend to whom, if a mask was given"""

    def find_place(self, wanted: Tensor) -> int | None:
        """Return the place of the output that equals a tensor; None if no output does."""
        for place, output in enumerate(self.outputs):
            if self._is_close(output, wanted):
                return place
        return None

    def tells(self, contract: Contract, place: int) -> bool:
        """Whether an output shows what a class computes.

        Without layers, a single token comes back as it is, and so do all if scores are very large.
        """
        return contract.has(Capability.PROJECTED) or self.find_place(self.x) != place

    @property
    def may_be_exact(self) -> bool:
        """Whether some output has no NaN and no infinity."""
        return any(bool(output.isfinite().all()) for output in self.outputs)

    def is_like(self, other: "Observation") -> bool:
        """Whether all outputs are those of another call, NaN and infinity included."""
        pairs = [
            tuple(map(_to_numbers, pair)) for pair in zip(self.outputs, other.outputs, strict=False)
        ]
        return len(self.outputs) == len(other.outputs) and all(
            one.shape == another.shape
            and torch.allclose(one, another, 0, other.compute_tolerance(another), equal_nan=True)
            for one, another in pairs
        )

    def _is_close(self, output: Tensor, wanted: Tensor) -> bool:
        if output.shape != wanted.shape or not bool(output.isfinite().all()):
            return False
        largest = float(wanted.abs().max())
        difference = float((output.to(torch.float64) - wanted).abs().max())
        return difference <= RELATIVE * largest

    def compute_tolerance(self, output: Tensor) -> float:
        """Return the tolerance of an explanation."""
        finite = output[output.isfinite()].abs()
        return RELATIVE * float(finite.max()) if finite.numel() else 0.0


def _to_numbers(tensor: Tensor) -> Tensor:
    return (torch.view_as_real(tensor) if tensor.is_complex() else tensor).double()


def draw_weights(tensors: Mapping[str, TensorInfo], seed: int) -> dict[str, Tensor]:
    """Draw all parameters so that scores are neither nearly equal nor saturated.

    A single number that is not a parameter stays: it is a scale, which no optimizer changes.
    """
    generator = torch.Generator().manual_seed(seed)
    drawn = {}
    for path, info in tensors.items():
        single = info.kind == "unregistered" and math.prod(info.shape) == 1
        if info.kind != "buffer" and not single:
            fan = max(info.shape[-1], 1) if len(info.shape) > 1 else 4
            numbers = torch.randn(info.shape, generator=generator, dtype=torch.float64)
            drawn[path] = numbers * (1.4 / math.sqrt(fan))
    return drawn


def make_parameters(
    contract: Contract, case: Case, stored: Mapping[str, Tensor]
) -> Parameters | None:
    """Return stored tensors as canonical parameters; None if their shapes do not allow it."""
    if not contract.has(Capability.PROJECTED):
        identity = torch.eye(case.d_out, case.d_in, dtype=torch.float64)
        return Parameters(W_q=identity, W_k=identity, W_v=identity)
    try:
        return Parameters(**contract.to_canonical(stored, case))
    except (Violation, RuntimeError, ValueError, TypeError):
        return None


def find_exact(contract: Contract, case: Case, seen: Observation) -> int | None:
    """Return the place of the output that equals the contract's equation; None without such one."""
    parameters = make_parameters(contract, case, seen.stored)
    if parameters is None:
        return None
    wanted = _compute(contract, case, seen, parameters, get_scale(contract, case))
    place = seen.find_place(wanted)
    return place if place is not None and seen.tells(contract, place) else None


def measure_error(
    contract: Contract, case: Case, seen: Observation, place: int, overrides: StepOverrides
) -> float:
    """Return the largest error of an output against the contract's equation with these steps."""
    parameters = make_parameters(contract, case, seen.stored)
    assert parameters is not None, "the output was found to be that of the contract"
    if overrides:
        given = _order(contract, seen.x), parameters, _get_visible(contract, seen)
        inputs = make_attention_inputs(contract, case, *given)
        exact = run_pipeline(CORRECT.override(overrides), inputs).output
    else:
        exact = _compute(contract, case, seen, parameters, get_scale(contract, case))
    return float((seen.outputs[place].double() - exact).abs().max())


def _compute(
    contract: Contract,
    case: Case,
    seen: Observation,
    parameters: Parameters,
    scale: float,
) -> Tensor:
    """Return the output of the contract's equation."""
    x, visible = _order(contract, seen.x), _get_visible(contract, seen)
    variant = get_variant(contract, case)
    exact = multi_head_attention(x, parameters, case.heads, visible, scale, variant=variant)
    return _order(contract, exact.output)


def starts_right(contract: Contract, case: Case, seen: Observation) -> bool:
    """Whether the first token is right, which under a causal mask does not depend on scores."""
    alone = replace(
        seen, x=seen.x[:, :1], outputs=tuple(t[:, :1] for t in seen.outputs if t.dim() > 1)
    )
    return find_exact(contract, case, alone) is not None


def find_scale(contract: Contract, case: Case, seen: Observation) -> tuple[float, int] | None:
    """Return the factor of the scores that explains an output, and the output's place."""
    parameters = make_parameters(contract, case, seen.stored)
    if parameters is None:
        return None

    def compute(exponent: float) -> Tensor:
        return _compute(contract, case, seen, parameters, 2.0**exponent)

    def measure(got: Tensor, exponent: float) -> float:
        return float((compute(exponent) - got).abs().max())

    for place, output in enumerate(seen.outputs):
        got, shape = output.to(torch.float64), (*seen.x.shape[:2], case.d_out)
        if got.shape != shape or not bool(got.isfinite().all()) or not seen.tells(contract, place):
            continue
        best = _minimise(functools.partial(measure, got))
        if seen.find_place(compute(best)) == place:
            return 2.0**best, place
    return None


def _minimise(error: Callable[[float], float]) -> float:
    """Return the exponent with the smallest error: the best of a grid, refined by sectioning."""
    grid = [(error(step / 4), step / 4) for step in range(-32, 17)]
    low, high = min(grid)[1] - 0.25, min(grid)[1] + 0.25
    for _ in range(SECTIONS):
        third = (high - low) / 3
        if error(low + third) < error(high - third):
            high -= third
        else:
            low += third
    return (low + high) / 2


def find_mistakes(
    contract: Contract,
    case: Case,
    seen: Observation,
    *,
    pairs: bool = False,
    among: Sequence[Mistake] = TELLING,
) -> Iterator[tuple[Candidate, int]]:
    """Yield each known mistake that explains one of the outputs, with the output's place."""
    parameters = make_parameters(contract, case, seen.stored)
    if parameters is None or contract.call_form.axes is TokenAxes.TOKENS_FIRST:
        return
    numbered = [(place, output.to(torch.float64)) for place, output in enumerate(seen.outputs)]
    telling = [
        (place, numbers)
        for place, numbers in numbered
        if _is_telling(numbers) and seen.tells(contract, place)
    ]
    if not telling:
        return
    visible = _get_visible(contract, seen)
    inputs = make_attention_inputs(contract, case, seen.x, parameters, visible)
    selected = _select_mistakes(contract, among)
    table = build_table(make_key(inputs, CORRECT, selected, pairs=pairs))
    for place, numbers in telling:
        for candidate in table.find_candidates((numbers,), [seen.compute_tolerance(numbers)]):
            yield candidate, place


def _is_telling(output: Tensor) -> bool:
    """Whether an output is informative: not NaN, and not the same for all tokens and sequences."""
    finite = output.isfinite()
    if output.dim() != 3 or bool(finite.double().mean() <= 0.5):
        return False
    return bool(((output != output[:1, :1]) & finite).any())


def _select_mistakes(contract: Contract, among: Sequence[Mistake]) -> Sequence[Mistake]:
    # Without the name of a sink, a number for each head may be a scale.
    sinks = any(m.holds == ("sinks",) and "sink" in m.path.lower() for m in contract.mappings)
    return tuple(
        each for each in among if each.applies_to(contract) and (sinks or each not in SINKS)
    )


def _order(contract: Contract, tensor: Tensor) -> Tensor:
    first = contract.call_form.axes is TokenAxes.TOKENS_FIRST
    return tensor.transpose(0, 1) if first else tensor


def _get_visible(contract: Contract, seen: Observation) -> Tensor | None:
    if not contract.has(Capability.CAUSAL):
        return seen.mask
    return causal_mask(_order(contract, seen.x).shape[1])
