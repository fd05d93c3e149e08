"""What a submission wrote can be shown: visible, short, and on its own line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcheck.grader.report.render.sanitise import UNSAFE, sanitise, sanitise_line


@given(st.text(), st.integers(50, 200))
def test_sanitised_text_has_no_control_characters_and_is_short(written: str, limit: int) -> None:
    shown = sanitise(written * 20, limit)
    assert not UNSAFE.search(shown)
    assert len(shown) <= limit
    assert "\n" not in sanitise_line(written) and "\t" not in sanitise_line(written)
    shown.encode()  # can be written to a file


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("plain\n\ttext × √ 漢字 עברית 👩‍🔬", "plain\n\ttext × √ 漢字 עברית 👩‍🔬"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\x9b31m\x07\x00\r", r"\x9b31m\x07\x00\r"),
        ("exe.\u202eyp.ipynb", r"exe.\u202eyp.ipynb"),
        ("\u2066a\u2069\u200f\u061c", r"\u2066a\u2069\u200f\u061c"),
        ("a\u2028b\u200b\ufeff", r"a\u2028b\u200b\ufeff"),
        ("caf\udce9.py", r"caf\udce9.py"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_control_characters_become_visible(written: str, shown: str) -> None:
    assert sanitise(written) == shown


def test_long_text_keeps_both_ends_and_states_its_length() -> None:
    shown = sanitise("begin" + "x" * 1_000_000 + "end", 100)
    assert shown.startswith("begin") and shown.endswith("end")
    assert "shortened: 1000008 characters in all" in shown


def test_a_line_break_cannot_make_a_second_line() -> None:
    assert sanitise_line("a.py\nb.py  20 / 20  passed") == r"a.py\nb.py  20 / 20  passed"
