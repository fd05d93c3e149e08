"""Mistakes in latents, in the keys and values that they determine, and in rotating parts."""

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
    linear,
    split_heads,
)
from headcheck.properties.mistakes.steps.positions import (
    angles_of,
    get_factor,
    right_angles,
    turn_pairs,
)
from headcheck.properties.mistakes.steps.scores import divided_by
from headcheck.reference.multi_head import append_beside, project_beside

Change = Callable[[Tensor], Tensor]


def get_latents(s: PipelineState) -> tuple[Tensor, Tensor]:
    """Return the latents of keys and values."""
    if s.p.W_down is None:
        raise ValueError("there are no latents")
    return linear(s.entered[1], s.p.W_down), linear(s.entered[2], s.p.W_down)


def with_latents(key: Change, value: Change) -> Callable[[PipelineState], QKVTensors]:
    """Compute keys and values from other latents."""

    def project(s: PipelineState) -> QKVTensors:
        of_keys, of_values = get_latents(s)
        keys = linear(key(of_keys), s.p.W_k, s.p.b_k)
        return linear(s.x, s.p.W_q, s.p.b_q), keys, linear(value(of_values), s.p.W_v, s.p.b_v)

    return project


def normed(epsilon: float | None) -> Change:
    """Divide latents by their root mean square."""
    return lambda t: F.rms_norm(t, (t.shape[-1],), eps=epsilon)


def layer_normed(t: Tensor) -> Tensor:
    return F.layer_norm(t, (t.shape[-1],))


# ------------------------------------------------------------------------------- parts of a head


def cut_parts(s: PipelineState, t: Tensor) -> tuple[Tensor, Tensor]:
    """Return the head's own part of queries or keys, and the rotating part."""
    own = s.inputs.head_dim
    if not s.inputs.variant.beside:
        raise ValueError("nothing stands beside heads")
    return t[..., :own], t[..., own:]


def matched(own: float, beside: float) -> Callable[[PipelineState], Tensor]:
    """Multiply the product of each part of queries and keys by a number."""

    def match(s: PipelineState) -> Tensor:
        (q, q_turned), (k, k_turned) = cut_parts(s, s.query), cut_parts(s, s.key)
        return own * (q @ k.mT) + beside * (q_turned @ k_turned.mT)

    return match


def matched_with_turned_keys_first(s: PipelineState) -> Tensor:
    """Compare queries whose rotated part comes last with keys whose rotated part comes first."""
    return s.query @ put_turned_first(s, s.key).mT


def matched_with_turned_queries_first(s: PipelineState) -> Tensor:
    return put_turned_first(s, s.query) @ s.key.mT


def put_turned_first(s: PipelineState, t: Tensor) -> Tensor:
    own, turned = cut_parts(s, t)
    return torch.cat([turned, own], dim=-1)


def scaled_apart(s: PipelineState) -> Tensor:
    """Divide the products of each part by the root of its own width."""
    (q, q_turned), (k, k_turned) = cut_parts(s, s.query), cut_parts(s, s.key)
    own, beside = math.sqrt(q.shape[-1]), math.sqrt(q_turned.shape[-1])
    return q @ k.mT / own + q_turned @ k_turned.mT / beside


def turned_instead(own: bool, beside: bool) -> Callable[[PipelineState], QKVTensors]:
    """Rotate the heads' own parts of queries and keys, or the rotating parts, or both."""

    def turn(s: PipelineState, t: Tensor) -> Tensor:
        parts = zip(cut_parts(s, t), (own, beside), strict=True)
        return torch.cat([turn_whole(s, part) if how else part for part, how in parts], dim=-1)

    return lambda s: (turn(s, s.appended[0]), turn(s, s.appended[1]), s.appended[2])


def turn_whole(s: PipelineState, t: Tensor) -> Tensor:
    """Rotate all columns; if their number is odd, the last column does not rotate."""
    own = t[..., : t.shape[-1] // 2 * 2]
    turned = get_factor(s) * turn_pairs(s, own, right_angles(s, own))
    return torch.cat([turned, t[..., own.shape[-1] :]], dim=-1)


def turned_as_one(s: PipelineState) -> QKVTensors:
    """Rotate both parts of queries and keys as if they were one head."""
    query, key, value = s.appended
    return turn_whole(s, query), turn_whole(s, key), value


# ------------------------------------------------------------------------------- beside the heads


def get_beside(s: PipelineState) -> tuple[Tensor, Tensor]:
    """Return the rotating parts of all heads' queries, side by side, and of keys."""
    found = project_beside(s.entered[0], s.p, s.entered[1])
    if found is None:
        raise ValueError("nothing stands beside heads")
    return found


def appended_as(query: Callable[[Tensor, int], Tensor]) -> Callable[[PipelineState], QKVTensors]:
    """Give heads other parts of the rotated queries, of shape (batch, heads, tokens, rope_dim)."""

    def append(s: PipelineState) -> QKVTensors:
        asked, shared = get_beside(s)
        own = query(asked, s.inputs.heads)
        shared = shared.unsqueeze(1).expand(-1, own.shape[1], -1, -1)
        query_, key, value = s.normed
        return torch.cat([query_, own], dim=-1), torch.cat([key, shared], dim=-1), value

    return append


def in_turn(t: Tensor, heads: int) -> Tensor:
    """Give neighbouring columns to different heads."""
    parts: Tensor = t.unflatten(-1, (-1, heads))
    return parts.permute(0, 3, 1, 2)


def reshaped_alone(t: Tensor, heads: int) -> Tensor:
    """Reshape to an axis for heads before the tokens, without a transpose."""
    return t.reshape(t.shape[0], heads, t.shape[1], -1)


def all_of_head(number: int) -> Callable[[Tensor, int], Tensor]:
    """Give all heads the part of the head with this number."""

    def choose(t: Tensor, heads: int) -> Tensor:
        own = split_heads(t, heads)
        return own[:, number].unsqueeze(1).expand_as(own)

    return choose


def mean_of_heads(t: Tensor, heads: int) -> Tensor:
    own = split_heads(t, heads)
    return own.mean(1, keepdim=True).expand_as(own)


def turned_key_of_first_head(s: PipelineState) -> QKVTensors:
    """Let only the first head see the key that all heads should share."""
    query, key, value = CORRECT.place(s)
    own, turned = cut_parts(s, key)
    alone = torch.cat([turned[:, :1], torch.zeros_like(turned[:, 1:])], dim=1)
    return query, torch.cat([own, alone], dim=-1), value


def turned_by_heads(query: bool, key: bool) -> Callable[[PipelineState], QKVTensors]:
    """Use the number of the head as the position."""

    def turn(s: PipelineState, t: Tensor) -> Tensor:
        own, beside = cut_parts(s, t)
        by_head = beside.transpose(1, 2)
        turned = get_factor(s) * turn_pairs(s, by_head, right_angles(s, by_head))
        return torch.cat([own, turned.transpose(1, 2)], dim=-1)

    def place(s: PipelineState) -> QKVTensors:
        right = CORRECT.place(s)
        asked = turn(s, s.appended[0]) if query else right[0]
        return asked, turn(s, s.appended[1]) if key else right[1], right[2]

    return place


def queries_turned_before_split(s: PipelineState) -> QKVTensors:
    """Rotate the parts of all heads' queries as if they were one head's."""
    asked, shared = get_beside(s)
    wide = turn_pairs(s, asked, angles_of(lambda s, pair: pair / len(pair))(s, asked))
    turned = get_factor(s) * wide, get_factor(s) * turn_pairs(s, shared, right_angles(s, shared))
    query, key, value = s.normed
    return *append_beside(query, key, turned), value


TURNED_BESIDE = require(
    Capability.BESIDE,
    define_mistake(
        "scale_of_one_part",
        "The scores are divided by the root of the width of one part of the queries alone; they "
        "are head_dim + rope_dim wide.",
    ).simulated_by(
        {"scale": divided_by(lambda s: s.inputs.head_dim**0.5)},
        {"scale": divided_by(lambda s: s.inputs.variant.beside**0.5)},
    ),
    define_mistake(
        "parts_scaled_apart",
        "Each part of the scores is divided by the root of its own width; both are to be divided "
        "by that of head_dim + rope_dim.",
    ).simulated_by(match=scaled_apart, scale=divided_by(lambda s: 1)),
    define_mistake(
        "turned_part_left_out",
        "The rotated parts of queries and keys are not used in the scores.",
    ).simulated_by(match=matched(1, 0)),
    define_mistake(
        "turned_part_alone",
        "Only the rotated parts of queries and keys are used in the scores, not the heads' parts.",
    ).simulated_by(match=matched(0, 1)),
    define_mistake(
        "turned_part_subtracted",
        "The product of the rotated parts is subtracted; both products should be added.",
    ).simulated_by(match=matched(1, -1)),
    define_mistake(
        "parts_in_another_order",
        "The rotated part comes last in queries and first in keys, or the other way round: "
        "the products pair numbers that do not belong together.",
    ).simulated_by(
        {"match": matched_with_turned_keys_first},
        {"match": matched_with_turned_queries_first},
    ),
    define_mistake(
        "own_part_turned_too",
        "Queries and keys of the heads are rotated by positions as well; only the part beside them "
        "should be.",
    ).simulated_by({"place": turned_instead(True, True)}, {"place": turned_as_one}),
    define_mistake(
        "own_part_turned_instead",
        "Queries and keys of the heads are rotated by positions, and the part beside them is not.",
    ).simulated_by(place=turned_instead(True, False)),
    define_mistake(
        "turned_by_the_number_of_the_head",
        "The number of the head is used as the position: one axis is mistaken for another.",
        needs=Capability.HEADS,
    ).simulated_by(
        {"place": turned_by_heads(True, False)},
        {"place": turned_by_heads(False, True)},
    ),
    define_mistake(
        "turned_queries_split_otherwise",
        "The rotated part of the queries is not split into heads as it should be: head 0 "
        "should have the first rope_dim columns, head 1 the next ones.",
        needs=Capability.HEADS,
    ).simulated_by({"append": appended_as(in_turn)}, {"append": appended_as(reshaped_alone)}),
    define_mistake(
        "one_turned_query_for_all_heads",
        "All heads have the same rotated part of the queries; only the keys should share it.",
        needs=Capability.HEADS,
    ).simulated_by(
        {"append": appended_as(all_of_head(0))},
        {"append": appended_as(all_of_head(-1))},
        {"append": appended_as(mean_of_heads)},
    ),
    define_mistake(
        "turned_key_of_one_head",
        "Only the first head uses the rotated key; all heads should use it.",
        needs=Capability.HEADS,
    ).simulated_by(place=turned_key_of_first_head),
    define_mistake(
        "turned_queries_not_split",
        "The rotated part of the queries is rotated as wide as all heads together; each head has "
        "its "
        "own pairs.",
        needs=Capability.HEADS,
    ).simulated_by(append=queries_turned_before_split, place=lambda s: s.appended),
    define_rare_mistake(
        "scale_of_a_latent",
        "The scores are divided by the root of the width of a latent, with rope_dim or without; "
        "queries are head_dim + rope_dim wide, wherever they go through W_up_key.",
        "scale | divide | scores",
    ).simulated_by(
        {"scale": divided_by(lambda s: math.sqrt(s.p.W_k.shape[1]))},
        {"scale": divided_by(lambda s: math.sqrt(s.p.W_k.shape[1] + s.inputs.variant.beside))},
    ),
)
LATENTS = require(
    Capability.LATENT,
    define_mistake(
        "latents_normalised",
        "The latents are normalised before keys and values are made of them, which is not asked "
        "for.",
    ).simulated_by(
        *({"project": with_latents(n, n)} for n in map(normed, (None, 1e-6, 1e-5))),
        {"project": with_latents(layer_normed, layer_normed)},
    ),
    *TURNED_BESIDE,
)
