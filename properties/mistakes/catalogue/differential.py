"""Mistakes about the two maps of differential attention, and the lambdas between them."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from headcheck.properties.contracts.contract import Capability
from headcheck.properties.mistakes.catalogue.mistake import (
    define_mistake,
    define_rare_mistake,
    require,
)
from headcheck.properties.mistakes.pipeline import (
    CORRECT,
    PipelineState,
    QKVTensors,
    get_maps,
    split_heads,
    split_maps,
)

START = 0.8
"""the initial value of lambdas, which people use in place of the parameter"""
Weigh = Callable[[Tensor, Tensor, Tensor], Tensor]
"""computes weights from the first map, the second map, and lambdas of a matching shape"""


def get_lambdas(s: PipelineState) -> Tensor:
    """Return the lambdas of all heads, in a shape that can multiply maps."""
    if s.p.lambdas is None:
        raise ValueError("there are no lambdas")
    return s.p.lambdas[:, None, None]


def weighed_by(weigh: Weigh) -> Callable[[PipelineState], Tensor]:
    """Compute the weights from both maps and lambdas in another way."""
    return lambda s: weigh(*get_maps(s), get_lambdas(s))


def with_changed_lambdas(change: Callable[[Tensor], Tensor]) -> Callable[[PipelineState], Tensor]:
    """Use other lambdas than those of the heads."""
    return weighed_by(lambda first, second, lambdas: first - change(lambdas) * second)


def renormalised(s: PipelineState) -> Tensor:
    weights = CORRECT.subtract(s)
    return weights / weights.sum(-1, keepdim=True)


def softmax_of_subtracted_scores(s: PipelineState) -> Tensor:
    first, second = s.scores[:, 0::2], s.scores[:, 1::2]
    return torch.softmax(_hide(s, first - get_lambdas(s) * second), dim=-1)


def _hide(s: PipelineState, t: Tensor) -> Tensor:
    return t if s.visible is None else t.masked_fill(~s.visible, -torch.inf)


def second_map_seeing_all(s: PipelineState) -> Tensor:
    hidden = CORRECT.hide(s).clone()
    hidden[:, 1::2] = s.scores[:, 1::2]
    return hidden


def neighbours_apart(s: PipelineState) -> QKVTensors:
    """Use every other column of a head for the first map."""
    query, key, value = s.shared
    return _take_turns(query), _take_turns(key), value


def _take_turns(t: Tensor) -> Tensor:
    pairs: Tensor = t.unflatten(-1, (-1, 2))
    return pairs.movedim(-1, 2).flatten(1, 2)


def all_columns_halved(s: PipelineState) -> QKVTensors:
    """Split the first half of all columns among the first maps of all heads."""
    query, key, _ = s.normed_whole
    return _halve_columns(query, s), _halve_columns(key, s), s.shared[2]


def _halve_columns(t: Tensor, s: PipelineState) -> Tensor:
    heads = s.inputs.heads
    return torch.stack([split_heads(half, heads) for half in t.chunk(2, dim=-1)], 2).flatten(1, 2)


def with_halves(
    queries: tuple[int, int], keys: tuple[int, int]
) -> Callable[[PipelineState], QKVTensors]:
    """Compute both maps from these halves of queries and keys."""

    def halve(s: PipelineState) -> QKVTensors:
        query, key, value = s.shared
        return _choose(query, queries), _choose(key, keys), value

    return halve


def _choose(t: Tensor, halves: tuple[int, int]) -> Tensor:
    both: Tensor = split_maps(t).unflatten(1, (-1, 2))
    return both[:, :, list(halves)].flatten(1, 2)


def normalised(eps: float | None, factor: float) -> Callable[[PipelineState], Tensor]:
    """Divide each head's output by its root mean square, and multiply it by a factor."""
    return lambda s: factor * F.rms_norm(CORRECT.mix(s), (s.value.shape[-1],), eps=eps)


DIFFERENTIAL = require(
    Capability.DIFFERENTIAL,
    define_mistake(
        "second_map_without_effect",
        "The second softmax is never subtracted: the weights are the first one alone.",
    ).simulated_by(subtract=weighed_by(lambda first, second, _: first)),
    define_mistake(
        "lambdas_of_one",
        "The second softmax is subtracted as a whole: it should be multiplied by lambda first.",
    ).simulated_by(subtract=with_changed_lambdas(torch.ones_like)),
    define_mistake(
        "constant_lambda",
        "A fixed number replaces the lambdas, so learning them changes nothing.",
    ).simulated_by(
        {"subtract": with_changed_lambdas(lambda t: torch.full_like(t, START))},
        {"subtract": with_changed_lambdas(lambda t: torch.full_like(t, 0.5))},
        {"subtract": with_changed_lambdas(lambda t: torch.full_like(t, 0.2))},
    ),
    define_mistake(
        "maps_added", "The second softmax is added; it should be subtracted."
    ).simulated_by(subtract=with_changed_lambdas(torch.neg)),
    define_mistake(
        "maps_exchanged",
        "The two halves are exchanged: the first softmax is subtracted from the second.",
    ).simulated_by(subtract=weighed_by(lambda first, second, t: second - t * first)),
    define_mistake(
        "lambda_on_both_maps",
        "Lambda multiplies the difference of both softmaxes, not the second one alone.",
    ).simulated_by(subtract=weighed_by(lambda first, second, t: t * (first - second))),
    define_mistake(
        "lambda_on_the_first_map",
        "Lambda multiplies the first softmax; it should multiply the second.",
    ).simulated_by(subtract=weighed_by(lambda first, second, t: t * first - second)),
    define_mistake(
        "one_lambda_for_all_heads",
        "All heads have the same lambda; each should have its own.",
        needs=Capability.HEADS,
    ).simulated_by(
        {"subtract": with_changed_lambdas(lambda t: t[:1])},
        {"subtract": with_changed_lambdas(lambda t: t[-1:])},
        {"subtract": with_changed_lambdas(torch.mean)},
        {"subtract": with_changed_lambdas(torch.sum)},
    ),
    define_mistake(
        "lambdas_of_other_heads",
        "The lambdas are in another order than the heads: head 0 should have the first one.",
        needs=Capability.HEADS,
    ).simulated_by(
        {"subtract": with_changed_lambdas(lambda t: t.flip(0))},
        {"subtract": with_changed_lambdas(lambda t: t.roll(1, 0))},
        {"subtract": with_changed_lambdas(lambda t: t.roll(-1, 0))},
    ),
    define_mistake(
        "difference_renormalised",
        "The weights are divided by their sum: they should sum to 1 - lambda, not to one.",
    ).simulated_by(subtract=renormalised),
    define_mistake(
        "negative_weights_cut_off",
        "Weights below zero become zero: a difference may be negative.",
    ).simulated_by(subtract=lambda s: CORRECT.subtract(s).relu()),
    define_mistake(
        "scores_subtracted",
        "The scores are subtracted and go through one softmax; there should be two softmaxes, "
        "and their difference.",
    ).simulated_by(subtract=softmax_of_subtracted_scores),
    define_mistake(
        "softmax_of_difference",
        "The difference of the softmaxes goes through another softmax; it should be used as it is.",
    ).simulated_by(subtract=lambda s: torch.softmax(_hide(s, CORRECT.subtract(s)), dim=-1)),
    define_mistake(
        "scale_of_the_whole_head",
        "The scores are divided by the root of a head's width; each map has half of it.",
    ).simulated_by(scale=lambda s: s.raw_scores / math.sqrt(s.inputs.head_dim)),
    define_mistake(
        "second_map_not_masked",
        "In the second softmax the future is not hidden.",
    ).simulated_by(hide=second_map_seeing_all),
    define_mistake(
        "one_half_for_both_maps",
        "Both maps use the same half of the queries, of the keys, or of both.",
    ).simulated_by(
        {"halve": with_halves((0, 0), (0, 0))},
        {"halve": with_halves((1, 1), (1, 1))},
        {"halve": with_halves((0, 1), (0, 0))},
        {"halve": with_halves((0, 1), (1, 1))},
        {"halve": with_halves((0, 0), (0, 1))},
        {"halve": with_halves((1, 1), (0, 1))},
    ),
    define_mistake(
        "keys_of_the_other_map",
        "The first halves of the queries are compared with the second halves of the keys.",
    ).simulated_by(halve=with_halves((0, 1), (1, 0))),
    define_mistake(
        "halves_interleaved",
        "Every other column of a head makes the first map; its first half should.",
    ).simulated_by(halve=neighbours_apart),
    define_mistake(
        "halves_of_all_columns",
        "The columns of all heads are halved together; each head should halve its own.",
        needs=Capability.HEADS,
    ).simulated_by(halve=all_columns_halved),
    define_mistake(
        "times_one_minus_lambda_init",
        "What the heads give is multiplied by 1 - 0.8, which this exercise does not ask for.",
    ).simulated_by(merge=lambda s: CORRECT.merge(s) * (1 - START)),
    define_mistake(
        "times_one_minus_lambda",
        "What the heads give is multiplied by 1 - lambda, which this exercise does not ask for.",
    ).simulated_by(subtract=weighed_by(lambda first, second, t: (1 - t) * (first - t * second))),
    define_rare_mistake(
        "heads_normalised",
        "What each head gives is divided by its root mean square, which is not asked for.",
    ).simulated_by(
        *(
            {"mix": normalised(eps, factor)}
            for eps in (None, 1e-5, 1e-6)
            for factor in (1.0, 1 - START)
        )
    ),
    define_rare_mistake(
        "lambdas_changed",
        "The lambdas do not count as they are: they go through a function first.",
    ).simulated_by(
        {"subtract": with_changed_lambdas(torch.sigmoid)},
        {"subtract": with_changed_lambdas(torch.exp)},
        {"subtract": with_changed_lambdas(torch.abs)},
        {"subtract": with_changed_lambdas(torch.relu)},
        {"subtract": with_changed_lambdas(torch.tanh)},
        {"subtract": with_changed_lambdas(lambda t: t.clamp(0, 1))},
        {"subtract": with_changed_lambdas(lambda t: START + t)},
        {"subtract": with_changed_lambdas(lambda t: START * t)},
        {"subtract": with_changed_lambdas(lambda t: 1 - t)},
        {"subtract": with_changed_lambdas(torch.square)},
        {"subtract": with_changed_lambdas(lambda t: 2 * t)},
    ),
)
