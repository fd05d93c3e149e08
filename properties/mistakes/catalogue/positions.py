"""Mistakes in positions: wrong rotations of queries and keys, or a wrong bias of scores.

Each is tried only if the statement asks for the kind of positions that it gets wrong.
"""

import math

from headcheck.properties.contracts.contract import Capability, Positions
from headcheck.properties.mistakes.catalogue.mistake import (
    define_mistake,
    define_rare_mistake,
    require,
)
from headcheck.properties.mistakes.steps import positions
from headcheck.properties.mistakes.steps.positions import angles_of, lowered_by, placed

ROTARY = require(
    Positions.ROTARY,
    define_mistake(
        "positions_not_used",
        "Positions are not used: queries and keys are not rotated by them.",
    ).simulated_by(place=placed(0, 0)),
    define_mistake(
        "only_queries_turned",
        "The queries are rotated by their positions, and the keys are not.",
    ).simulated_by(place=placed(1, 0)),
    define_mistake(
        "only_keys_turned",
        "The keys are rotated by their positions, and the queries are not.",
    ).simulated_by(place=placed(0, 1)),
    define_mistake(
        "values_turned_too",
        "The values are rotated by their positions as well; only queries and keys should be.",
    ).simulated_by(place=placed(1, 1, 1)),
    define_mistake(
        "keys_turned_the_other_way",
        "The keys are rotated in the opposite direction to the queries: "
        "the scores depend on the sum of two positions, not on their distance.",
    ).simulated_by({"place": placed(1, -1)}, {"place": placed(-1, 1)}),
    define_mistake(
        "turned_backwards",
        "Queries and keys are rotated in the opposite direction, or sines and cosines have changed "
        "places: (a, b) should become (a cos - b sin, b cos + a sin).",
    ).simulated_by(place=placed(-1, -1)),
    define_mistake(
        "sines_and_cosines_exchanged_in_queries",
        "In the rotation of queries, sines and cosines have changed places; with the keys they "
        "have not.",
    ).simulated_by(place=positions.exchanged_in(query=True)),
    define_mistake(
        "sines_and_cosines_exchanged_in_keys",
        "In the rotation of keys, sines and cosines have changed places; with the queries they "
        "have not.",
    ).simulated_by(place=positions.exchanged_in(key=True)),
    define_mistake(
        "sines_and_cosines_exchanged_in_one_half",
        "Sine and cosine have changed places in one of the two coordinates of a pair: (a, b) "
        "should become (a cos - b sin, b cos + a sin).",
    ).simulated_by(
        {"place": placed(turn=positions.exchanged_in_second_half)},
        {"place": placed(turn=positions.exchanged_in_first_half)},
    ),
    define_mistake(
        "neighbours_turned_together",
        "Neighbouring coordinates 2i and 2i + 1 are rotated together, not i and i + {turned}/2.",
        unless=Positions.ROTARY_NEIGHBOURS,
    ).simulated_by(
        {"place": placed(turn=positions.turn_neighbours)},
        {"place": placed(-1, -1, turn=positions.turn_neighbours)},
    ),
    define_mistake(
        "angles_and_pairs_differ",
        "The two coordinates of a pair are rotated by different angles: of neighbours and halves, "
        "the angles are laid out for one and the coordinates swapped for the other.",
        unless=Positions.ROTARY_NEIGHBOURS,
    ).simulated_by(
        {"place": placed(turn=positions.turn_halves_by_doubled_angles)},
        {"place": placed(turn=positions.turn_neighbours_by_repeated_angles)},
    ),
    define_mistake(
        "exponent_without_factor_two",
        "The exponent of the angles lacks a factor of 2: pair i should rotate by "
        "base^(-2i/{turned}).",
    ).simulated_by(place=placed(angles=angles_of(lambda s, i: i / (2 * len(i))))),
    define_mistake(
        "exponent_with_factor_four",
        "The exponent of the angles is doubled: pair i should rotate by base^(-2i/{turned}).",
    ).simulated_by(place=placed(angles=angles_of(lambda s, i: 2 * i / len(i)))),
    define_mistake(
        "exponent_positive",
        "The exponent of the angles lacks its minus sign: pair i should rotate by "
        "base^(-2i/{turned}).",
    ).simulated_by(place=placed(angles=angles_of(lambda s, i: -i / len(i)))),
    define_mistake(
        "pairs_counted_from_one",
        "The pairs are counted from 1 in the exponent of the angles, not from 0.",
    ).simulated_by(place=placed(angles=angles_of(lambda s, i: (i + 1) / len(i)))),
    define_mistake(
        "exponent_of_all_heads",
        "The exponent of the angles is divided by the width of all heads, not by {turned}.",
        needs=Capability.HEADS,
    ).simulated_by(place=placed(angles=angles_of(lambda s, i: 2 * i / s.inputs.d_out))),
    define_mistake(
        "all_pairs_turn_alike",
        "All pairs rotate by one radian a token; each should have its own frequency.",
    ).simulated_by(place=placed(angles=angles_of(lambda s, i: 0 * i))),
    define_mistake(
        "rotary_base",
        "The base of the angles is another number than the statement says.",
        "unused:base",
    ).simulated_by(
        *(
            {"place": placed(angles=angles_of(positions.right_exponent, base))}
            for base in (1e3, 1e5, 5e5, 1e6, 10, 2, math.e)
        )
    ),
    define_mistake(
        "turned_before_the_split",
        "Queries and keys are rotated as wide as all heads together; each head has its own pairs.",
        needs=Capability.HEADS,
        unless=Capability.BESIDE,
    ).simulated_by(
        {"place": positions.placed_before_split(positions.turn_halves)},
        {"place": positions.placed_before_split(positions.turn_neighbours)},
    ),
    define_mistake(
        "sine_not_negated",
        "Both products with the sine are added, which is not a rotation: one should be subtracted.",
    ).simulated_by(place=placed(turn=positions.without_negative_sine)),
    define_mistake(
        "sine_negated_twice",
        "Both products with the sine are subtracted, which mirrors instead of rotating: one should "
        "be added.",
    ).simulated_by(place=placed(turn=positions.with_two_negative_sines)),
    define_mistake(
        "halves_not_swapped",
        "Each half is multiplied by its own sine; it should be that of the other half of its pair.",
        unless=Positions.ROTARY_NEIGHBOURS,
    ).simulated_by(place=placed(turn=positions.without_swap)),
    define_mistake(
        "second_half_from_the_turned_first",
        "The second half is computed from the first half after this was rotated.",
        unless=Positions.ROTARY_NEIGHBOURS,
    ).simulated_by(place=placed(turn=positions.second_of_turned_first)),
)

ALIBI = require(
    Positions.ALIBI,
    define_mistake(
        "distances_not_used",
        "The scores do not fall with the distance: near and far keys are treated alike.",
    ).simulated_by(adjust=positions.unadjusted),
    define_mistake(
        "scores_rise_with_distance",
        "The scores rise with the distance; they should fall.",
    ).simulated_by(adjust=lowered_by(distance=lambda d: -d)),
    define_mistake(
        "slopes_in_reverse_order",
        "The slopes are in reverse order: the first head's should be the steepest.",
        needs=Capability.HEADS,
    ).simulated_by(adjust=lowered_by(lambda s, h: positions.right_slopes(s, h.flip(0)))),
    define_mistake(
        "one_slope_for_all_heads",
        "All heads have the same slope; head h should have 2^(-8h/num_heads), h counted from 1.",
        needs=Capability.HEADS,
    ).simulated_by(
        *(
            {"adjust": lowered_by(slope)}
            for slope in (
                lambda s, h: positions.right_slopes(s, 0 * h + 1),
                lambda s, h: positions.right_slopes(s, h[-1:].expand_as(h)),
                lambda s, h: 0 * h + 1,
                lambda s, h: 0 * h + 0.5,
            )
        )
    ),
    define_mistake(
        "slopes_counted_from_zero",
        "The heads are counted from 0 in the slopes, not from 1: the first one has a slope of 1.",
    ).simulated_by(adjust=lowered_by(lambda s, h: positions.right_slopes(s, h - 1))),
    define_mistake(
        "slopes_of_eight_heads",
        "The slopes are 1/2, 1/4, 1/8 …, as for 8 heads, whatever num_heads is.",
    ).simulated_by(adjust=lowered_by(lambda s, h: 2**-h)),
    define_mistake(
        "slopes_of_two_sequences",
        "Where num_heads is no power of two, the slopes are taken from two sequences, "
        "which this statement does not ask for.",
    ).simulated_by(adjust=lowered_by(positions.slopes_of_two_sequences)),
    define_mistake(
        "lowered_before_scaling",
        "The distances are subtracted before the scores are divided by the root of {width}, "
        "and so divided as well.",
    ).simulated_by(adjust=positions.lowered_before_scaling),
    define_mistake(
        "multiplied_by_distance",
        "The scores are multiplied by what should be added to them.",
    ).simulated_by(adjust=positions.multiplied_by_distance),
    define_mistake(
        "weights_lowered",
        "The distances are subtracted from the weights, after the softmax, not from the scores.",
    ).simulated_by(adjust=positions.unadjusted, use=positions.weights_lowered),
    define_rare_mistake(
        "other_function_of_distance",
        "It is not the distance itself that the slopes are multiplied by.",
    ).simulated_by(
        {"adjust": lowered_by(distance=lambda d: d**2)},
        {"adjust": lowered_by(distance=lambda d: d.sqrt())},
        {"adjust": lowered_by(distance=lambda d: d.log1p())},
        {"adjust": lowered_by(distance=lambda d: d / d.shape[-1])},
        {"adjust": lowered_by(distance=lambda d: d.clamp(max=1))},
    ),
)

LIMITED = require(
    Capability.SOFTCAP,
    define_mistake(
        "scores_not_limited", "The scores are not limited: softcap is not used.", "unused:cap"
    ).simulated_by(adjust=positions.unadjusted),
    define_mistake(
        "limit_of_one",
        "The tanh is not multiplied by softcap: all scores are limited to 1.",
    ).simulated_by(adjust=positions.limited(lambda t, c: (t / c).tanh())),
    define_mistake(
        "tanh_of_undivided_scores",
        "The scores are not divided by softcap before the tanh: small scores are not kept.",
    ).simulated_by(adjust=positions.limited(lambda t, c: c * t.tanh())),
    define_mistake(
        "plain_tanh",
        "The tanh of the scores is taken without softcap, which is to divide and to multiply.",
        "relu:tanh",
    ).simulated_by(adjust=positions.limited(lambda t, c: t.tanh())),
    define_mistake(
        "limit_inverted",
        "The scores are multiplied by softcap before the tanh and divided by it afterwards.",
        "relu:tanh",
    ).simulated_by(adjust=positions.limited(lambda t, c: (t * c).tanh() / c)),
    define_mistake(
        "scores_cut_off",
        "The scores are cut off at softcap; a tanh is to bend them smoothly.",
    ).simulated_by(adjust=positions.limited(lambda t, c: t.clamp(-c, c))),
    define_mistake(
        "limited_after_masking",
        "The scores are limited after the mask: −∞ becomes -softcap, and the future is seen.",
        "relu:tanh",
    ).simulated_by(hide=positions.limited_after_masking),
    define_mistake(
        "limited_before_scaling",
        "The scores are limited before they are divided by the root of {width}, not afterwards.",
    ).simulated_by(adjust=positions.limited_before_scaling),
    define_mistake(
        "weights_limited",
        "The weights are limited, after the softmax, instead of the scores.",
        "relu:tanh",
    ).simulated_by(adjust=positions.unadjusted, use=positions.weights_limited),
    define_mistake(
        "queries_and_keys_limited",
        "Queries and keys are limited instead of their products, the scores.",
        "relu:tanh",
    ).simulated_by(match=positions.queries_and_keys_limited, adjust=positions.unadjusted),
    define_rare_mistake("limited_twice", "The scores are limited twice.", "relu:tanh").simulated_by(
        adjust=positions.limited(lambda t, c: positions.softcap(positions.softcap(t, c), c))
    ),
    define_rare_mistake(
        "limited_by_another_function",
        "The scores are limited by another function than softcap · tanh(scores / softcap).",
    ).simulated_by(
        {"adjust": positions.limited(lambda t, c: c * (t / c).sigmoid())},
        {"adjust": positions.limited(lambda t, c: t / (1 + t.abs() / c))},
        {"adjust": positions.limited(lambda t, c: c * (t / c).atan())},
        {"adjust": positions.limited(lambda t, c: c * (t / c).sin())},
        {"adjust": positions.limited(lambda t, c: t.clamp(max=c))},
    ),
    define_rare_mistake(
        "fixed_limit", "The limit is a fixed number instead of softcap."
    ).simulated_by(
        *(
            {"adjust": positions.limited(lambda t, _, c=c: positions.softcap(t, c))}  # type: ignore[misc]
            for c in (50.0, 30.0, 20.0, 15.0, 10.0, 5.0)
        )
    ),
)
