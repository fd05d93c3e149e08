"""Colours change no character of code, and what cannot be read is plain."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from headcheck.grader.report.render.highlight import (
    COLOURED,
    DARK,
    LIGHT,
    highlight,
    highlight_lines,
    write_colours,
)

GROUNDS = {LIGHT: "f5f6f8", DARK: "1d2125"}
"""what code stands on: the boxes of style.css.j2"""


@given(st.text(st.characters(exclude_characters="\r\ufeff")))
def test_no_character_is_lost_or_becomes_markup(code: str) -> None:
    lines = highlight_lines(code.split("\n"))
    shown = Markup("\n").join(lines)
    assert re.sub(r'<span class="[a-z]">|</span>', "", shown) == Markup.escape(code)
    assert all(line.count("<span") == line.count("</span>") for line in lines)
    assert highlight(code) == shown


def test_kinds_of_tokens_have_classes() -> None:
    code = 'class A:  # why\n    def f(self):\n        return "<b>" and not 1'
    first, second, third = highlight(code).split("\n")
    named = '<span class="k">class</span><span class="d"> A</span>'
    assert first == f'{named}:<span class="c">  # why</span>'
    assert second == '<span class="k">    def</span><span class="d"> f</span>(self):'
    assert '<span class="s"> &#34;&lt;b&gt;&#34;</span><span class="k"> and not</span>' in third
    assert third.endswith(" 1")


def test_a_string_goes_on_over_lines() -> None:
    lines = highlight_lines(['"""a', "b", 'c"""'])
    assert all(line.startswith('<span class="s">') for line in lines)


@pytest.mark.parametrize("quotes", ['"""', "'''"])
def test_an_excerpt_may_begin_or_end_within_a_docstring(quotes: str) -> None:
    begins = ["of the weights", quotes, "scores = q @ k", "return scores"]
    ends = ["return scores", "def f(q, k, v):  # all", f"    {quotes}The", "weights"]
    both = [*begins, f"def f():  {quotes}", "the"]
    after = ["return 1", f"{quotes}why{quotes}"]
    told = [f"x = rb{quotes}a", f"b{quotes}", "return x"]
    for lines, strings in (
        (begins, [0, 1]), (ends, [2, 3]), (both, [0, 1, 4, 5]), (after, [1]), (told, [0, 1]),
    ):  # fmt: skip
        shown = highlight_lines(lines)
        assert [i for i, line in enumerate(shown) if 'class="s"' in line] == strings
        assert any('<span class="k">return</span>' in line for line in shown)


@pytest.mark.parametrize("style", [LIGHT, DARK])
def test_colours_can_be_read_on_the_ground_of_code(style: str) -> None:
    colours = dict(re.findall(r"--(.): #([0-9a-fA-F]{6});", write_colours(style)))
    assert colours.keys() == COLOURED.keys()
    ground = measure_light(GROUNDS[style])
    for colour in colours.values():
        darker, lighter = sorted((measure_light(colour), ground))
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5, colour


def measure_light(colour: str) -> float:
    """The relative luminance of WCAG."""
    parts = (int(colour[i : i + 2], 16) / 255 for i in (0, 2, 4))
    linear = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return sum(p * weight for p, weight in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))


@given(st.text(st.sampled_from("ab: #'\"\t\n=(.0") | st.characters(exclude_characters="\r\ufeff")))
def test_no_tag_is_next_to_a_text_of_blanks_alone(code: str) -> None:
    """Where nbconvert exports a notebook, such a text shrinks, and with it an indentation."""
    for line in highlight_lines(f"    def f():\n  return  {code}\n\t'a'  # b".split("\n")):
        before_tags = re.split(r"<[^>]+>", line.rstrip())[:-1]
        assert not any(text.isspace() for text in before_tags)
