"""Mistakes in a window: how many earlier tokens a token sees."""

from headcheck.properties.contracts.contract import Capability
from headcheck.properties.mistakes.catalogue.mistake import (
    define_mistake,
    define_rare_mistake,
    require,
)
from headcheck.properties.mistakes.steps import windows

LINE = "only compare:(?i)win | only triangle:(?i)win"

WINDOWS = require(
    Capability.WINDOW,
    define_mistake(
        "no_window",
        "The window hides nothing: every token sees itself and all tokens before it.",
        LINE,
    ).simulated_by(permit=windows.everything_before),
    define_mistake(
        "window_too_short",
        "The window is one token too short: it includes the token itself.",
        LINE,
    ).simulated_by(permit=windows.of_length(-1)),
    define_mistake(
        "window_too_long",
        "The window is one token too long: it includes the token itself.",
        LINE,
    ).simulated_by(permit=windows.of_length(1)),
    define_mistake(
        "window_to_both_sides",
        "The window reaches as far into the future as into the past; later tokens are to be "
        "hidden.",
        LINE,
    ).simulated_by(permit=windows.to_both_sides),
    define_rare_mistake(
        "window_centred",
        "The window lies around each token, half of it in the future; it should end at the token.",
        LINE,
    ).simulated_by(permit=windows.centred),
    define_mistake(
        "window_inverted",
        "The window is inverted: tokens in it are hidden, and tokens before it are visible.",
        LINE,
    ).simulated_by(permit=windows.beyond_the_window),
    define_rare_mistake(
        "window_does_not_slide",
        "The sequence is cut into blocks of the window's length: a token sees none of the block "
        "before its own.",
    ).simulated_by(permit=windows.own_block),
    define_rare_mistake(
        "window_at_the_beginning",
        "The window lies at the beginning of the sequence, for every token alike.",
        LINE,
    ).simulated_by(permit=windows.only_the_beginning),
    define_rare_mistake(
        "window_at_the_end",
        "The window lies at the end of the sequence, for every token alike.",
        LINE,
    ).simulated_by(permit=windows.only_the_end),
)
