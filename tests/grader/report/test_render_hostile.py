"""Whatever a submission writes is shown, and does nothing."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcheck.grader.report.records import (
    Counterexample,
    ErrorRecord,
    NoteRecord,
    SubmissionRecord,
)
from headcheck.grader.report.render import html, text
from headcheck.grader.report.render.highlight import COLOURED
from headcheck.grader.report.render.sanitise import UNSAFE
from headcheck.grader.report.render.view import MAX_CODE_LENGTH
from tests.grader.report.records import (
    EQUATION,
    FUTURE,
    RIGHT,
    SHAPE,
    Outline,
    make_crashed,
    make_failed,
    make_report,
    make_submission,
    make_untried,
    render_pages,
)

ATTACKS = [
    "<script>alert(1)</script>",
    "</pre></title></style><img src=x onerror=alert(1)>",
    "\" onmouseover='alert(1)' x=\"",
    "{{ 7 * 7 }}{% raw %}",
    "\x1b]8;;http://evil\x07\x1b[2J\x1b[32m20 / 20  passed",
    "\u202egnp.exe\u2066\u2069\x00\x85\u2028",
    "a\nada.py  causal_attention (CausalAttention)  6 / 6  passed\n",
    "\udcff\udc80 not UTF-8",
    "[bold]markup[/bold] :smile: \\",
    "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L" * 50,
]


def hostile(written: str) -> SubmissionRecord:
    attacked = replace(make_failed(SHAPE, got=written), case=written)
    attacked = replace(attacked, counterexample=Counterexample({}, written), printed=written)
    return make_submission(
        attacked,
        make_crashed(FUTURE),
        make_untried(EQUATION, written),
        file=f"in/{written}.py",
        name=written,
        notes=(NoteRecord(written, written),),
        error=ErrorRecord(written, written),
    )


def skeleton(page: str) -> list[tuple[str, tuple[str, ...], str | None]]:
    """The tags of a page with their attributes' names, but for lines of messages and colours."""
    return [
        (tag, tuple(attributes), attributes.get("class"))
        for tag, attributes in Outline(page).tags
        if (tag, attributes) != ("span", {"dir": "auto"})
        and not (tag == "span" and attributes.get("class") in COLOURED)
    ]


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_a_submission_says_becomes_markup(attack: str) -> None:
    shown, usual = (render_pages(make_report(hostile(each))) for each in (attack, "plain"))
    for got, plain in zip(shown, usual, strict=True):
        assert skeleton(got) == skeleton(plain)
        assert not UNSAFE.search(got)
        got.encode()


@given(st.text())
def test_no_text_becomes_markup(written: str) -> None:
    plain = html.render_page(hostile("plain"), make_report())
    got = html.render_page(hostile(f"a{written}"), make_report())
    assert skeleton(got) == skeleton(plain)


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_a_submission_says_controls_a_terminal_or_forges_a_verdict(attack: str) -> None:
    shown = text.render(make_report(hostile(attack)))
    assert not UNSAFE.search(shown)
    at_the_edge = [line for line in shown.split("\n") if line and not line.startswith("  ")]
    assert len(at_the_edge) == 1
    shown.encode()


def test_a_megabyte_stays_out_of_the_report() -> None:
    record = hostile("<&" * (1 << 19))
    report = make_report(record)
    written = [*render_pages(report), text.render(report)]
    assert all(len(shown) < 10 * MAX_CODE_LENGTH for shown in written)


@pytest.mark.parametrize(
    ("file", "name", "shown"),
    [
        ("class/Émilie du Châtelet.ipynb", "MultiHead", "003-emilie-du-chatelet-multihead.html"),
        ("../../etc/passwd", None, "003-submission.html"),
        ("a\\b\\c.py", None, "003-c.html"),
        ("עברית\u202e.py", "漢字", "003-submission.html"),
        ("\udcff<script>.py", None, "003-script.html"),
        ("index.html", None, "003-index.html"),
    ],
)
def test_a_page_s_name_is_plain(file: str, name: str | None, shown: str) -> None:
    assert html.make_page_name(replace(RIGHT, file=file, name=name), 2) == shown


@given(st.text(), st.text(), st.integers(0, 2000))
def test_page_names_are_safe_and_distinct(file: str, name: str, index: int) -> None:
    record = replace(RIGHT, file=file * 50, name=name)
    shown = html.make_page_name(record, index)
    assert re.fullmatch(r"\d{3,}-[a-z0-9][a-z0-9-]*\.html", shown)
    assert len(shown) < 64
    assert shown != html.make_page_name(record, index + 1)
