"""Mistakes in the scaling of rotary frequencies for longer sequences.

Each is tried only if the statement asks for a kind of scaling that it gets wrong. Sentences call a
frequency slow or fast, as its pair rotates slowly or fast.
"""

import math

from headcheck.properties.mistakes.catalogue.mistake import (
    define_mistake,
    define_rare_mistake,
    require_scaling,
)
from headcheck.properties.mistakes.steps.positions import (
    change,
    keep,
    keep_only_between,
    raise_base,
    reverse_between,
    scaled_by,
)
from headcheck.properties.parts.positions import ScalingKind

IN_BANDS = (ScalingKind.YARN, ScalingKind.LLAMA3)

OF_ALL_KINDS = require_scaling(
    tuple(ScalingKind),
    define_mistake(
        "frequencies_not_scaled",
        "The frequencies are not scaled: pairs rotate as if sequences were as short as before.",
    ).simulated_by(
        {"place": scaled_by(lambda scaling, frequencies, base: frequencies)},
        {"place": scaled_by(lambda _, frequencies, base: frequencies, lambda _: 1, lambda _: 1)},
    ),
    define_mistake(
        "frequencies_multiplied_by_the_factor",
        "Frequencies, or positions, are multiplied by the factor; they should be divided by it.",
    ).simulated_by(place=scaled_by(change(factor=lambda scaling: 1 / scaling.factor))),
)

OF_BANDS = require_scaling(
    IN_BANDS,
    define_mistake(
        "bands_exchanged",
        "Slow frequencies are kept and fast ones are divided by the factor; it should be the "
        "other way round.",
    ).simulated_by(
        {"place": scaled_by(keep(lambda kept: 1 - kept))},
        {"place": scaled_by(keep(keep_only_between))},
    ),
    define_mistake(
        "blend_reversed",
        "The blend between kept and divided frequencies is the wrong way round: the faster a "
        "frequency is, the more of it should be kept.",
    ).simulated_by(place=scaled_by(keep(reverse_between))),
    define_mistake(
        "frequencies_not_blended",
        "Frequencies between the slow and the fast ones are kept, or divided by the factor; they "
        "should be a blend of both.",
    ).simulated_by(
        {"place": scaled_by(keep(lambda kept: (kept > 0).to(kept.dtype)))},
        {"place": scaled_by(keep(lambda kept: (kept >= 1).to(kept.dtype)))},
    ),
    define_mistake(
        "all_frequencies_divided",
        "All frequencies are divided by the factor; the fast ones should be kept.",
    ).simulated_by(place=scaled_by(keep(lambda kept: 0 * kept))),
    define_mistake(
        "new_length_used",
        "The longer length, which is the original length times the factor, is used where the "
        "original length should be.",
    ).simulated_by(place=scaled_by(change(original_length=lambda s: s.original_length * s.factor))),
    define_mistake(
        "wavelengths_without_two_pi",
        "A pair with frequency f turns once in 2π/f tokens; the factor of 2π is missing.",
    ).simulated_by(
        place=scaled_by(change(original_length=lambda s: s.original_length * 2 * math.pi))
    ),
    define_rare_mistake(
        "blend_along_the_other_axis",
        "The blend is linear in another quantity than the statement says: in the number of the "
        "pair, or in how often the pair turns within the original length.",
    ).simulated_by(
        place=scaled_by(change(kind=lambda s: "llama3" if s.kind == "yarn" else "yarn"))
    ),
)

OF_NTK = require_scaling(
    (ScalingKind.NTK,),
    define_mistake(
        "base_multiplied_without_exponent",
        "The base is multiplied by the factor itself, without the exponent d/(d - 2).",
    ).simulated_by(place=scaled_by(raise_base(lambda d: 1))),
    define_mistake(
        "frequencies_divided_with_their_base_kept",
        "All frequencies are divided by the factor; only the base should be larger.",
    ).simulated_by(place=scaled_by(change(kind=lambda s: "linear"))),
    define_rare_mistake(
        "base_multiplied_with_another_exponent",
        "The exponent of the factor, with which the base is multiplied, is not d/(d - 2).",
    ).simulated_by(
        {"place": scaled_by(raise_base(lambda d: (d - 2) / d))},
        {"place": scaled_by(raise_base(lambda d: d / (d - 1)))},
        {"place": scaled_by(raise_base(lambda d: d / (d + 2)))},
        {"place": scaled_by(raise_base(lambda d: (d / 2) / max(1, d / 2 - 2)))},
    ),
)

OF_YARN = require_scaling(
    (ScalingKind.YARN,),
    define_mistake(
        "attention_factor_left_out",
        "Cosines and sines are not multiplied by the attention factor.",
    ).simulated_by(place=scaled_by(query=lambda _: 1, key=lambda _: 1)),
    define_mistake(
        "attention_factor_applied_once",
        "The attention factor multiplies the scores once; it belongs to the queries and to the "
        "keys, so scores are multiplied by its square.",
    ).simulated_by(place=scaled_by(key=lambda _: 1)),
    define_rare_mistake(
        "another_attention_factor",
        "The attention factor is another number than the statement says.",
    ).simulated_by(
        *(
            {"place": scaled_by(query=factor, key=factor)}
            for factor in (
                lambda s: 0.1 * math.log10(s.factor) + 1,
                lambda s: 0.1 * math.log2(s.factor) + 1,
                lambda s: 0.1 * s.factor + 1,
                lambda s: math.log(s.factor) + 1,
                lambda s: 1 / s.attention_factor,
                lambda s: 0.1 * math.log(s.factor),
            )
        )
    ),
    define_rare_mistake(
        "ramp_not_at_whole_numbers",
        "The blend's first and last pair are not rounded as the statement says: the first one "
        "down, the last one up.",
    ).simulated_by(place=scaled_by(change(truncate=lambda s: not s.truncate))),
)

SCALED_ROTARY = (*OF_ALL_KINDS, *OF_BANDS, *OF_NTK, *OF_YARN)
