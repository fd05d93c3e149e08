"""Reports for people: complete, said once, and harmless whatever a submission wrote."""

import io
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from exercises import ALL
from grader.render import html, text
from grader.render.harmless import UNFIT
from grader.render.view import CODE, NOTES, points, tally, view
from grader.report import (
    Counterexample,
    DiagnosisRecord,
    ErrorRecord,
    NoteRecord,
    PropertyRecord,
    Report,
    SubmissionRecord,
)
from properties.property import Verdict
from properties.violation import Kind, Status, SubmissionFailed, Violation

SHAPE, FUTURE, EQUATION = (
    "The output has the right shape.",
    "The future is invisible.",
    "The output equals the equation.",
)
CASE = "batch=1 tokens=2 heads=1 float64 cpu seed=3"
CODE_TO_PASTE = "import torch\n\nprint(module(x))"


def claim(
    name: str, group: str = "values", status: str = "passed", message: str = "", of: float = 2
) -> PropertyRecord:
    earned = of if status == "passed" else 0.0
    return PropertyRecord(name, name, group, status, earned, of, message)


def failed(name: str, group: str = "values", got: str = "1.5") -> PropertyRecord:
    violation = Violation(Kind.VALUE, "0.5 ± 1e-06", got, "output[0, 0]", name, CASE, "√d_k?")
    shown = Counterexample({"batch": 1}, CODE_TO_PASTE)
    record = claim(name, group, "failed", str(violation))
    return replace(record, case=CASE, counterexample=shown)


def crashed(
    name: str, group: str = "values", seed: int = 3, status: str = "crashed"
) -> PropertyRecord:
    failure = SubmissionFailed(Status(status), "ValueError: no", 7, 3)
    case = CASE.replace("seed=3", f"seed={seed}")
    return replace(
        claim(name, group, status, f"{name}\n  got       {failure}\n  on        {case}"), case=case
    )


def untried(name: str, because: str, group: str = "values") -> PropertyRecord:
    return claim(name, group, "not_tried", f"Not tried, because this did not hold: {because}")


def submission(*claims: PropertyRecord, file: str = "ada.py", **more: object) -> SubmissionRecord:
    troubles = [c.status for c in claims if c.status not in ("passed", "not_tried")]
    record = SubmissionRecord(
        file=file,
        student="ada",
        exercise="causal_attention",
        name="CausalAttention",
        score=sum(c.points for c in claims),
        max_score=sum(c.max_points for c in claims),
        status=troubles[0] if troubles else "passed",
        seconds=1.0,
        properties=claims,
    )
    return replace(record, **more)  # type: ignore[arg-type]


def unjudged(message: str = "line 3: '(' was never closed", **more: object) -> SubmissionRecord:
    record = SubmissionRecord("b.ipynb", "b", None, None, 0.0, 0.0, "not_tried", 0.1)
    return replace(record, error=ErrorRecord("syntax", message, 4, 3), **more)  # type: ignore[arg-type]


def report(*submissions: SubmissionRecord) -> Report:
    return Report(1, "0.1.0", submissions)


RIGHT = submission(claim(SHAPE, "contract"), claim(FUTURE, "mask"), claim(EQUATION))
WRONG = submission(
    claim(SHAPE, "contract"),
    failed(EQUATION),
    claim("It is repeatable."),
    failed(FUTURE, "mask"),
    untried("Weights sum to one.", EQUATION, "weights"),
    untried("Weights are positive.", EQUATION, "weights"),
    notes=(NoteRecord("prints", "`forward` calls print 6 times", 3, 26),),
    file="class/alan.py",
)


# ------------------------------------------------------------------ what is said


@pytest.mark.parametrize(
    ("score", "most", "shown"),
    [
        (17.5, 20, "17.5 / 20"),
        (20.0, 20.0, "20 / 20"),
        (10 / 3, 10, "3.33 / 10"),
        (0.1 + 0.2, 0.3, "0.3 / 0.3"),
        (-0.0, 100, "0 / 100"),
        (19.999, 20, "19.999 / 20"),
        (19.99999, 20, "19.99999 / 20"),
        (0, 0, "–"),
    ],
)
def test_a_score_is_as_short_as_it_can_be_and_never_full_by_rounding(
    score: float, most: float, shown: str
) -> None:
    assert points(score, most) == shown


def test_the_tally_says_first_how_many_passed() -> None:
    statuses = ["failed", "timed_out", "failed", "passed"]
    assert tally(statuses) == "4 submissions: 1 passed, 2 failed, 1 timed out"
    assert tally([]) == "0 submissions"


def test_claims_are_counted_by_group_in_order() -> None:
    groups = view(WRONG).groups
    assert [(g.name, g.score, len(g.passed), g.total, g.status) for g in groups] == [
        ("contract", "2 / 2", 1, 1, "passed"),
        ("values", "2 / 4", 1, 2, "failed"),
        ("mask", "0 / 2", 0, 1, "failed"),
        ("weights", "0 / 4", 0, 2, "not tried"),
    ]


def test_claims_that_ended_the_same_way_are_said_once() -> None:
    claims = [crashed(SHAPE), crashed(FUTURE, "mask", seed=9), crashed(EQUATION, "mask", seed=4)]
    shown = view(submission(*claims, crashed("It is quick.", status="timed_out")))
    assert [(t.claim, t.alike) for t in shown.troubles] == [(SHAPE, 2), ("It is quick.", 0)]
    (same,) = shown.groups[1].alike
    assert same.why == SHAPE and same.claims == (FUTURE, EQUATION)


def test_claims_that_do_not_hold_are_each_said_however_alike() -> None:
    assert [t.alike for t in view(submission(failed(SHAPE), failed(FUTURE))).troubles] == [0, 0]


def test_claims_not_tried_name_the_claim_that_did_not_hold() -> None:
    chain = submission(failed(SHAPE), untried(FUTURE, SHAPE), untried(EQUATION, FUTURE))
    assert view(chain).summary == (f"2 claims were not tried, because this did not hold: {SHAPE}",)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("", "1 claim was not tried."),
        ("out of time", "1 claim was not tried: out of time"),
        (f"because this did not hold: {FUTURE}", "because this did not hold: " + FUTURE),
    ],
)
def test_any_reason_for_not_trying_can_be_told(message: str, said: str) -> None:
    (sentence,) = view(submission(claim(FUTURE, status="not_tried", message=message))).summary
    assert sentence.endswith(said)


def test_the_examiner_s_own_messages_are_understood() -> None:
    first, other = ALL[0].properties[:2]
    failure = SubmissionFailed(Status.CRASHED, "ValueError: no", 7, 3)
    verdicts = [
        Verdict(first, Status.CRASHED, failure=failure),
        Verdict(other, Status.NOT_TRIED, because=first),
    ]
    records = [claim(v.property.claim, status=v.status, message=v.message) for v in verdicts]
    shown = view(submission(*records))
    assert "(cell 7, line 3)" in shown.troubles[0].details
    assert first.claim not in shown.troubles[0].details
    assert shown.summary == (f"1 claim was not tried, because this did not hold: {first.claim}",)


def test_claims_that_hold_without_points_are_explained() -> None:
    kept = replace(claim(SHAPE), points=0.0)
    first, *_ = view(submission(kept, failed(EQUATION))).summary
    assert first.startswith("1 claim holds, but gives no points yet")


def test_a_case_is_said_once() -> None:
    assert view(submission(failed(SHAPE))).troubles[0].case == ""
    bare = replace(failed(SHAPE), message="")
    assert view(submission(bare)).troubles[0].case == CASE


def test_of_very_many_notes_some_are_shown() -> None:
    notes = tuple(NoteRecord("prints", f"note {i}") for i in range(NOTES + 5))
    shown = view(submission(notes=notes)).notes
    assert len(shown) == NOTES + 1 and shown[-1].message == "and 5 more notes"


# ---------------------------------------------------------------------------- text


def test_full_marks_are_short() -> None:
    assert text.render(report(RIGHT)) == (
        "ada.py  causal_attention (CausalAttention)  6 / 6  passed\n  All 3 claims hold.\n"
    )


def test_a_failed_submission_is_told_in_order_and_once() -> None:
    shown = text.render(report(WRONG))
    assert (
        shown
        == f"""\
class/alan.py  causal_attention (CausalAttention)  4 / 12  failed

  contract  2 / 2  1 of 1 claims
  values    2 / 4  1 of 2 claims
  mask      0 / 2  0 of 1 claims
  weights   0 / 4  0 of 2 claims

  {EQUATION}
    expected  0.5 ± 1e-06 at output[0, 0]
    got       1.5
    on        {CASE}
    hint      √d_k?

  {FUTURE}
    expected  0.5 ± 1e-06 at output[0, 0]
    got       1.5
    on        {CASE}
    hint      √d_k?

  2 claims were not tried, because this did not hold: {EQUATION}

  note  `forward` calls print 6 times (cell 3, line 26)
"""
    )


NO_SCALE = DiagnosisRecord("no_scale", "The scores are not scaled.", 3, 12, 7, 7)
NO_MASK = DiagnosisRecord("no_mask", "Nothing is hidden.", None, None, 7, 7)


@pytest.mark.parametrize(
    ("found", "lines"),
    [
        (
            (NO_SCALE,),
            "  One mistake was found; it explains the answers to all 7 inputs tried:\n"
            "    The scores are not scaled. (cell 3, line 12)\n\n",
        ),
        (
            (replace(NO_SCALE, cases_matched=5),),
            "  One mistake was found; it explains the answers to 5 of 7 inputs tried:\n"
            "    The scores are not scaled. (cell 3, line 12)\n\n",
        ),
        (
            (NO_SCALE, NO_MASK),
            "  Two mistakes were found; they explain the answers to all 7 inputs tried:\n"
            "    The scores are not scaled. (cell 3, line 12)\n    Nothing is hidden.\n\n",
        ),
    ],
)
def test_what_is_wrong_is_said_right_after_the_score(
    found: tuple[DiagnosisRecord, ...], lines: str
) -> None:
    headline, _, rest = text.render(report(replace(WRONG, diagnosis=found))).partition("\n\n")
    assert headline == text.render(report(WRONG)).partition("\n\n")[0]
    assert rest.startswith(lines)


def test_a_page_says_what_is_wrong_before_the_claims() -> None:
    words = Outline(html.page(replace(WRONG, diagnosis=(NO_SCALE, NO_MASK)), report(WRONG))).words
    assert words.index("Two mistakes were found") < words.index("(cell 3, line 12)")
    assert words.index("Nothing is hidden.") < words.index(EQUATION)


def test_crashes_of_one_kind_are_counted() -> None:
    shown = text.render(report(submission(crashed(SHAPE), *map(crashed, "abcdefghijk"))))
    assert shown.count("ValueError") == 1
    assert "    11 more claims ended the same way\n" in shown


def test_an_error_says_where() -> None:
    assert text.render(report(unjudged())) == (
        "b.ipynb  no exercise  –  not tried\n"
        "  error line 3: '(' was never closed (cell 4, line 3)\n"
    )


def test_several_submissions_end_in_a_table() -> None:
    long = "a" * 60 + "/漢字.py"
    shown = text.render(report(RIGHT, WRONG, unjudged(file=long)))
    *_, head, first, second, third, _, counts = shown.splitlines()
    assert head.split() == ["file", "exercise", "score", "status"]
    assert first.split("  ")[0] == "ada.py" and first.endswith("6 / 6   passed")
    assert second.endswith("4 / 12  failed")
    assert third.startswith("…aaa") and "/漢字.py  no exercise " in third
    assert counts == "3 submissions: 1 passed, 1 failed, 1 not tried"
    assert head.index("exercise") == first.index("causal")


def test_nothing_graded_is_said() -> None:
    assert text.render(report()) == "Nothing was graded.\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_a_console_shows_the_same(terminal: bool) -> None:
    out = io.StringIO()
    several = report(WRONG, RIGHT, unjudged("[red]not markup[/] :smile:"))
    text.print_to(Console(file=out, width=30, force_terminal=terminal), several)
    assert re.sub(r"\x1b\[[\d;]*m", "", out.getvalue()) == text.render(several)
    assert ("\x1b" in out.getvalue()) == terminal


# ---------------------------------------------------------------------------- html


class Outline(HTMLParser):
    """The tags of a page, in order, and its words."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.open: list[str] = []
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "wbr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "title"} & set(self.open):
            self.words += data

    def names(self) -> list[str]:
        return [tag for tag, _ in self.tags]

    def all(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag == name]


def pages(*submissions: SubmissionRecord) -> list[str]:
    whole = report(*submissions)
    return [html.index(whole), html.whole(whole), *(html.page(s, whole) for s in submissions)]


def test_pages_are_documents_with_landmarks_and_need_no_network() -> None:
    for written in pages(RIGHT, WRONG, unjudged()):
        outline = Outline(written)
        assert written.startswith("<!doctype html>\n")
        assert outline.all("html") == [{"lang": "en"}]
        assert {"title", "main", "footer"} < set(outline.names())
        assert outline.names().count("h1") == 1
        assert not {"script", "link", "img", "iframe"} & set(outline.names())
        assert "http://" not in written and "https://" not in written and "url(" not in written
        assert "prefers-color-scheme: dark" in written and "@media print" in written


def test_headings_never_skip_a_level() -> None:
    for written in pages(WRONG, unjudged()):
        levels = [int(name[1]) for name in Outline(written).names() if re.fullmatch(r"h\d", name)]
        assert all(b <= a + 1 for a, b in zip([0, *levels], levels, strict=False))


def test_a_page_tells_everything_once() -> None:
    words = Outline(html.page(WRONG, report(WRONG))).words
    for said in (
        *("alan.py", "class/", "causal_attention (CausalAttention)", "4 / 12", "✗ failed"),
        *("Paste this to see it", "Weights sum to one.", "It is repeatable.", "0 of 2 claims"),
        *("(cell 3, line 26)", "– not tried", f"{CASE}\n", CODE_TO_PASTE),
    ):
        assert said in words
    assert words.count(FUTURE) == 1
    assert words.count(EQUATION) == 2  # itself, and why others were not tried


def test_failed_groups_are_open_and_others_closed() -> None:
    groups = [
        "open" in attributes
        for attributes in Outline(html.page(WRONG, report(WRONG))).all("details")
        if attributes.get("class") == "group"
    ]
    assert groups == [False, True, True, False]


def test_a_fragment_says_what_a_page_says_and_needs_no_page() -> None:
    for record in (RIGHT, WRONG, unjudged()):
        shown = Outline(html.fragment(record))
        said = Outline(html.page(record, report(record))).words
        assert shown.names()[0] == "div"
        assert not {"script", "link", "img", "iframe", "html", "body", "h1"} & set(shown.names())
        body = [line for line in shown.words.splitlines() if line.strip()]
        assert not [line for line in body[2:] if line not in said]
        assert "http://" not in shown.words and "url(" not in html.fragment(record)
        headings = [attributes for level in "456" for attributes in shown.all(f"h{level}")]
        assert headings
        assert all("jp-toc-ignore" in (each["class"] or "").split() for each in headings)


def test_the_rules_of_a_fragment_are_about_nothing_else() -> None:
    css = html.fragment(RIGHT).split("<style>")[1].split("</style>")[0]
    css = re.sub(r"/\*.*?\*/", "", css, flags=re.S)
    depth, selectors, last = 0, [], 0
    for at, character in enumerate(css):
        if character == "{":
            if depth == 0:
                selectors.append(" ".join(css[last:at].split()))
            depth += 1
        elif character == "}":
            depth, last = depth - 1, at + 1
    assert depth == 0
    for selector in selectors:
        assert all(".headcheck.headcheck" in part for part in selector.split(",")), selector


def test_a_group_lists_what_ended_like_a_claim_of_another() -> None:
    record = submission(crashed(SHAPE, "contract"), crashed(FUTURE, "mask"))
    words = Outline(html.page(record, report(record))).words
    assert "1 more claim ended the same way." in words
    assert f"Ended the same way as “{SHAPE}”" in words
    assert words.count("ValueError") == 1


def test_an_error_has_a_box() -> None:
    words = Outline(html.page(unjudged(), report(unjudged()))).words
    assert "Error: syntax" in words and "was never closed (cell 4, line 3)" in words


def test_the_index_links_every_page() -> None:
    submissions = (RIGHT, RIGHT, WRONG)
    outline = Outline(html.index(report(*submissions)))
    links = [a["href"] for a in outline.all("a")]
    assert links == [html.page_name(s, i) for i, s in enumerate(submissions)]
    assert len(set(links)) == 3
    assert [th["scope"] for th in outline.all("th")] == ["col"] * 4 + ["row"] * 3
    assert "3 submissions: 2 passed, 1 failed" in outline.words


def test_one_page_with_everything_links_within() -> None:
    outline = Outline(html.whole(report(RIGHT, WRONG)))
    targets = [f"#{article['id']}" for article in outline.all("article")]
    assert [a["href"] for a in outline.all("a")] == targets and len(targets) == 2


@pytest.mark.parametrize("status", [*Status, "something_new"])
def test_a_status_is_a_word_and_a_symbol(status: str) -> None:
    shown = html.page(replace(RIGHT, status=status), report(RIGHT))
    symbol = html.SYMBOLS.get(status.replace("_", " "), "?")
    assert f"{symbol} {status.replace('_', ' ')}" in Outline(shown).words


# ------------------------------------------------------------------------- hostile

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
    attacked = replace(failed(SHAPE, got=written), case=written)
    attacked = replace(attacked, counterexample=Counterexample({}, written))
    return submission(
        attacked,
        crashed(FUTURE),
        untried(EQUATION, written),
        file=f"in/{written}.py",
        name=written,
        notes=(NoteRecord(written, written),),
        error=ErrorRecord(written, written),
    )


def skeleton(page: str) -> list[tuple[str, tuple[str, ...], str | None]]:
    """The tags of a page with their attributes' names, but for what is one line of a message."""
    return [
        (tag, tuple(attributes), attributes.get("class"))
        for tag, attributes in Outline(page).tags
        if (tag, attributes) != ("span", {"dir": "auto"})
    ]


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_a_submission_says_becomes_markup(attack: str) -> None:
    for got, plain in zip(pages(hostile(attack)), pages(hostile("plain")), strict=True):
        assert skeleton(got) == skeleton(plain)
        assert not UNFIT.search(got)
        got.encode()


@given(st.text())
def test_no_text_becomes_markup(written: str) -> None:
    plain = html.page(hostile("plain"), report())
    got = html.page(hostile(f"a{written}"), report())
    assert skeleton(got) == skeleton(plain)


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_a_submission_says_controls_a_terminal_or_forges_a_verdict(attack: str) -> None:
    shown = text.render(report(hostile(attack)))
    assert not UNFIT.search(shown)
    at_the_edge = [line for line in shown.split("\n") if line and not line.startswith("  ")]
    assert len(at_the_edge) == 1
    shown.encode()


def test_a_megabyte_stays_out_of_the_report() -> None:
    record = hostile("<&" * (1 << 19))
    written = [*pages(record), text.render(report(record))]
    assert all(len(shown) < 10 * CODE for shown in written)


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
    assert html.page_name(replace(RIGHT, file=file, name=name), 2) == shown


@given(st.text(), st.text(), st.integers(0, 2000))
def test_page_names_are_safe_and_unlike(file: str, name: str, index: int) -> None:
    record = replace(RIGHT, file=file * 50, name=name)
    shown = html.page_name(record, index)
    assert re.fullmatch(r"\d{3,}-[a-z0-9][a-z0-9-]*\.html", shown)
    assert len(shown) < 64
    assert shown != html.page_name(record, index + 1)
