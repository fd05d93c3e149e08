"""Mistakes in latents, in the keys and values that they determine, and in rotating parts."""

import math

import torch
import torch.nn.functional as F

from headcheck.properties.contracts.contract import Capability
from headcheck.properties.mistakes.catalogue.mistake import (
    define_mistake,
    define_rare_mistake,
    require,
)
from headcheck.properties.mistakes.steps import latents
from headcheck.properties.mistakes.steps.latents import (
    appended_as,
    matched,
    turned_by_heads,
    turned_instead,
    with_latents,
)
from headcheck.properties.mistakes.steps.scores import divided_by

TURNED_BESIDE = require(
    Capability.BESIDE,
    define_mistake(
        "scale_of_one_part",
        "The scores are divided by the root of the width of one part of the queries alone; they "
        "are head_dim + rope_dim wide.",
        "scale | kernel:scale | divide | scores",
    ).simulated_by(
        {"scale": divided_by(lambda s: s.inputs.head_dim**0.5)},
        {"scale": divided_by(lambda s: s.inputs.variant.beside**0.5)},
    ),
    define_mistake(
        "parts_scaled_apart",
        "Each part of the scores is divided by the root of its own width; both are to be divided "
        "by that of head_dim + rope_dim.",
        "scale | divide | scores",
    ).simulated_by(match=latents.scaled_apart, scale=divided_by(lambda s: 1)),
    define_mistake(
        "turned_part_left_out",
        "The rotated parts of queries and keys are not used in the scores.",
        "scores",
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
        {"match": latents.matched_with_turned_keys_first},
        {"match": latents.matched_with_turned_queries_first},
    ),
    define_mistake(
        "own_part_turned_too",
        "Queries and keys of the heads are rotated by positions as well; only the part beside them "
        "should be.",
        "",
    ).simulated_by({"place": turned_instead(True, True)}, {"place": latents.turned_as_one}),
    define_mistake(
        "own_part_turned_instead",
        "Queries and keys of the heads are rotated by positions, and the part beside them is not.",
        "last sine | range",
    ).simulated_by(place=turned_instead(True, False)),
    define_mistake(
        "turned_by_the_number_of_the_head",
        "The number of the head is used as the position: one axis is mistaken for another.",
        "",
        needs=Capability.HEADS,
    ).simulated_by(
        {"place": turned_by_heads(True, False)},
        {"place": turned_by_heads(False, True)},
    ),
    define_mistake(
        "turned_queries_split_otherwise",
        "The rotated part of the queries is not split into heads as it should be: head 0 "
        "should have the first rope_dim columns, head 1 the next ones.",
        "",
        needs=Capability.HEADS,
    ).simulated_by(
        {"append": appended_as(latents.in_turn)}, {"append": appended_as(latents.reshaped_alone)}
    ),
    define_mistake(
        "one_turned_query_for_all_heads",
        "All heads have the same rotated part of the queries; only the keys should share it.",
        needs=Capability.HEADS,
    ).simulated_by(
        {"append": appended_as(latents.all_of_head(0))},
        {"append": appended_as(latents.all_of_head(-1))},
        {"append": appended_as(latents.mean_of_heads)},
    ),
    define_mistake(
        "turned_key_of_one_head",
        "Only the first head uses the rotated key; all heads should use it.",
        needs=Capability.HEADS,
    ).simulated_by(place=latents.turned_key_of_first_head),
    define_mistake(
        "turned_queries_not_split",
        "The rotated part of the queries is rotated as wide as all heads together; each head has "
        "its "
        "own pairs.",
        needs=Capability.HEADS,
    ).simulated_by(append=latents.queries_turned_before_split, place=lambda s: s.appended),
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
        "norm",
    ).simulated_by(
        *({"project": with_latents(n, n)} for n in map(latents.normed, (None, 1e-6, 1e-5))),
        {"project": with_latents(latents.layer_normed, latents.layer_normed)},
    ),
    define_rare_mistake(
        "latents_through_a_function",
        "The latents go through a function, such as an activation, before they are used.",
        "relu | sigmoid | softmax",
    ).simulated_by(
        *(
            {"project": with_latents(f, f)}
            for f in (torch.relu, torch.tanh, F.gelu, F.silu, torch.sigmoid)
        ),
        {"project": with_latents(lambda t: t.softmax(-1), lambda t: t.softmax(-1))},
    ),
    *TURNED_BESIDE,
)
