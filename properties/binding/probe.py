"""One call of a constructed module with random weights: the results, and their causality."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headcheck.properties.binding.building import Built
from headcheck.properties.binding.hypotheses import Sizes, iter_readings
from headcheck.properties.binding.matching import Observation, draw_weights
from headcheck.properties.cases.case_tensors import draw_normal
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.subject import CallOptions, Module
from headcheck.properties.terms.call_form import CallForm


@dataclass(frozen=True, eq=False)
class CallProbe:
    """A constructed module with random weights, and what it returned in one form of a call."""

    built: Built
    sizes: Sizes
    form: CallForm
    module: Module
    seen: Observation
    batched: bool
    blind: bool
    """whether all outputs are independent of later tokens"""

    def iter_forms(self, causal: Sequence[bool]) -> Iterator[tuple[CallForm, bool]]:
        """Yield the form, and that with tokens first, each with and without a causal mask."""
        usual, *others = iter_readings(self.form)
        yield from ((usual, hides) for hides in causal)
        yield from itertools.product(others, (False, True))


def probe_call(
    module: Module, built: Built, sizes: Sizes, form: CallForm, *, batched: bool
) -> CallProbe | None:
    """Call a module with random weights; None if it returns no tensor, or only its input.

    A module that returns its input is no attention if it has no weights. Raises SubmissionFailed.
    """
    case = sizes.case
    x = draw_normal(case, "x", case.batch if batched else 1, case.tokens, case.d_in)
    weights = draw_weights(built.tensors, case.seed)
    module.write(weights)
    outputs = call_once(module, x, batched=batched)
    changed = x.clone()
    changed[:, -1] += 1
    blind = is_blind(outputs, call_once(module, changed, batched=batched))
    returned = any(t.shape == x.shape and torch.equal(t, x) for t in outputs)
    if not outputs or (returned and not built.tensors):
        return None
    seen = Observation(x, weights, outputs)
    return CallProbe(built, sizes, form, module, seen, batched, blind)


def call_once(module: Module, x: Tensor, *, batched: bool) -> tuple[Tensor, ...]:
    """Return all results, with a batch axis."""
    outputs = module.forward([x if batched else x[0]], CallOptions()).outputs
    return tuple(t if batched else t.unsqueeze(0) for t in outputs)


def is_blind(outputs: Sequence[Tensor], changed: Sequence[Tensor]) -> bool:
    """Whether the last token changes nothing at earlier tokens."""
    pairs = [(a, b) for a, b in zip(outputs, changed, strict=False) if a.dim() == 3]
    return bool(pairs) and all(
        a.shape == b.shape and torch.allclose(a[:, :-1], b[:, :-1]) for a, b in pairs
    )


def rank_by_explained(found: tuple[Contract, Sizes]) -> int:
    """Return a sort key: contracts that explain more of a module's parameters come first."""
    return -len(found[0].mappings)
