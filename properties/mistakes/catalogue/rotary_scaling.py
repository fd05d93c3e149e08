"""Mistakes in the scaling of rotary frequencies for longer sequences.

Each is tried only if the statement asks for a kind of scaling that it gets wrong. Sentences call a
frequency slow or fast, as its pair rotates slowly or fast.
"""

import math

from headcheck.properties.mistakes.catalogue.mistake import define_mistake, require_scaling
from headcheck.properties.mistakes.steps.positions import (
    change,
    keep,
    keep_only_between,
    reverse_between,
    scaled_by,
    with_base_times_factor,
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
)

OF_NTK = require_scaling(
    (ScalingKind.NTK,),
    define_mistake(
        "base_multiplied_without_exponent",
        "The base is multiplied by the factor itself, without the exponent d/(d - 2).",
    ).simulated_by(place=scaled_by(with_base_times_factor)),
    define_mistake(
        "frequencies_divided_with_their_base_kept",
        "All frequencies are divided by the factor; only the base should be larger.",
    ).simulated_by(place=scaled_by(change(kind=lambda s: "linear"))),
)

OF_YARN = require_scaling(
    (ScalingKind.YARN,),
    define_mistake(
        "attention_factor_left_out",
        "Cosines and sines are not multiplied by the attention factor, or only for queries or only "
        "for keys: both should be, so that scores are multiplied by its square.",
    ).simulated_by(
        {"place": scaled_by(query=lambda _: 1, key=lambda _: 1)},
        {"place": scaled_by(key=lambda _: 1)},
    ),
)

SCALED_ROTARY = (*OF_ALL_KINDS, *OF_BANDS, *OF_NTK, *OF_YARN)
