"""Pictures are well-formed, say in words what they show, and are harmless in every label."""

import itertools
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcheck.grader.reading.excerpts import MAX_LINE_LENGTH, MAX_MARKED_LENGTH
from headcheck.grader.report.pictures import colours
from headcheck.grader.report.pictures.captions import describe_evidence
from headcheck.grader.report.pictures.draw import Picture, draw_pictures
from headcheck.grader.report.pictures.heatmaps import LEAK_COLOUR, MOVED_COLOUR
from headcheck.grader.report.pictures.numbers import format_distinct, format_number
from headcheck.grader.report.records import (
    DiagnosisRecord,
    ErrorRecord,
    EvidenceRecord,
    Excerpt,
    InfluenceEvidence,
    LayoutEvidence,
    LineRecord,
    PlaceRecord,
    PropertyRecord,
    Report,
    SubmissionRecord,
    WeightsEvidence,
)
from headcheck.grader.report.render import html, text
from headcheck.grader.report.render.sanitise import UNSAFE
from headcheck.grader.report.render.view import (
    MAX_EXCERPTS,
    MAX_SOURCE_LINES,
    list_located,
    make_view,
)
from tests.grader.report.records import make_submission

NS = "{http://www.w3.org/2000/svg}"
TRIANGLE = ((True, False, False), (True, True, False), (True, True, True))
RIGHT = ((1.0, 0.0, 0.0), (0.4, 0.6, 0.0), (0.2, 0.3, 0.5))
WEIGHTS = WeightsEvidence(
    case="batch=1 tokens=3 seed=1",
    length=3,
    of="weights",
    made="recovered",
    sequence=0,
    head=1,
    queries=(0, 1, 2),
    keys=(0, 1, 2),
    may_attend=TRIANGLE,
    expected=RIGHT,
    got=((0.2, 0.3, 0.5), (0.4, 0.6, 0.0), (0.2, 0.3, 0.5)),
)
INFLUENCE = InfluenceEvidence(
    case="batch=1 tokens=3 seed=1",
    length=3,
    sequence=0,
    tokens=(0, 1, 2),
    may=TRIANGLE,
    expected=TRIANGLE,
    got=((True, False, True), (True, True, False), (True, True, True)),
)
SPLIT = LayoutEvidence(
    step="split",
    of="queries",
    tokens=2,
    heads=2,
    head_dim=1,
    expected=((((0, 0, 0),), ((1, 0, 0),)), (((0, 1, 0),), ((1, 1, 0),))),
    got=((((0, 0, 0),), ((0, 1, 0),)), (((1, 0, 0),), ((1, 1, 0, 1),))),
)
MERGE = replace(
    SPLIT,
    step="merge",
    of="heads",
    expected=((((0, 0, 0), (0, 1, 0)), ((1, 0, 0), (1, 1, 0))),),
    got=((((0, 0, 0), (1, 0, 0)), ((0, 1, 0), ())),),
)
ALL = EvidenceRecord(WEIGHTS, INFLUENCE, (SPLIT, MERGE))
HOSTILE = "</svg><script>alert(1)</script>\x1b[31m\u202e\"'&" + "x" * 9000


def drawn(evidence: EvidenceRecord) -> list[Picture]:
    found = list(draw_pictures(evidence))
    for panel in (panel for picture in found for panel in picture.panels):
        ET.fromstring(panel)
    return found


def panel(evidence: EvidenceRecord, number: int = 0) -> ET.Element:
    return ET.fromstring(drawn(evidence)[0].panels[number])


def texts(of: ET.Element) -> list[str]:
    return [each.text or "" for each in of.iter(f"{NS}text")]


def with_weights(*rows: tuple[float | None, ...], **more: object) -> EvidenceRecord:
    return EvidenceRecord(weights=replace(WEIGHTS, got=rows, **more))  # type: ignore[arg-type]


SUNK = with_weights(
    (0.5, 0, 0), (0.5, 0.5, 0), RIGHT[2], expected=((0.5, 0, 0), (0.5, 0.25, 0), RIGHT[2])
)
"""rows that need not sum to one: a sink takes the rest"""


# ------------------------------------------------------------------------------- what is drawn


def test_no_evidence_gives_no_pictures() -> None:
    assert draw_pictures(None) == draw_pictures(EvidenceRecord()) == ()


def test_every_panel_is_an_image_with_a_name_and_a_description() -> None:
    found = drawn(ALL)
    assert [len(picture.panels) for picture in found] == [2, 2, 3, 2]
    for each in itertools.chain.from_iterable(picture.panels for picture in found):
        svg = ET.fromstring(each)
        assert svg.tag == f"{NS}svg" and svg.get("role") == "img"
        assert (svg.findtext(f"{NS}title") or "").strip()
        assert (svg.findtext(f"{NS}desc") or "").strip()
        assert not [e for e in svg.iter() if e.get("id")], "two pictures would share an id"


def test_weights_are_drawn_as_expected_got_and_difference() -> None:
    titles = [texts(panel(EvidenceRecord(WEIGHTS), i))[0] for i in range(3)]
    assert titles == ["Expected", "Got", "Difference"]
    assert {"0.40", "0.60"} <= set(texts(panel(EvidenceRecord(WEIGHTS), 0)))
    assert {"−0.80", "+0.30", "+0.50"} <= set(texts(panel(EvidenceRecord(WEIGHTS), 2)))


def test_hidden_cells_are_hatched() -> None:
    for number in range(3):
        hatched = list(panel(EvidenceRecord(WEIGHTS), number).iter(f"{NS}path"))
        assert len(hatched) == 3
    everywhere = replace(WEIGHTS, may_attend=((True,) * 3,) * 3)
    assert not list(panel(EvidenceRecord(everywhere)).iter(f"{NS}path"))


def test_the_description_has_every_number_and_what_is_hidden() -> None:
    said = panel(EvidenceRecord(WEIGHTS), 1).findtext(f"{NS}desc") or ""
    assert "token 0: 0.20 0.30 0.50; token 1: 0.40 0.60 0;" in said
    assert "0 from 1, 0 from 2, 1 from 2" in said


def test_wrong_moves_are_marked_by_more_than_colour() -> None:
    moves = EvidenceRecord(influence=INFLUENCE)
    svg = panel(moves, 1)
    fills = [e.get("fill") for e in svg.iter(f"{NS}rect")]
    assert fills.count(LEAK_COLOUR) == 1 and fills.count(MOVED_COLOUR) == 6
    assert texts(svg).count("✗") == 1
    assert texts(panel(moves, 0)).count("✗") == 0
    stuck = replace(INFLUENCE, got=((True, False, False), (False, True, False), (True,) * 3))
    assert texts(panel(EvidenceRecord(influence=stuck), 1)).count("✗") == 1, "it wrongly stayed"


def test_elements_in_a_wrong_place_are_framed() -> None:
    for seen, wrong in ((SPLIT, 3), (MERGE, 3)):
        svg = panel(EvidenceRecord(layouts=(seen,)), 1)
        bold = [e for e in svg.iter(f"{NS}text") if e.get("font-weight") == "700"]
        assert len(bold) == wrong
        framed = [e for e in svg.iter(f"{NS}rect") if e.get("fill") == "none"]
        assert len(framed) == wrong
    assert "k1:1" in texts(panel(EvidenceRecord(layouts=(SPLIT,)), 1))


def test_a_layout_of_another_shape_is_drawn_as_it_is() -> None:
    other = replace(SPLIT, got=((((0, 0, 0), (0, 1, 0)), ((1, 0, 0), (1, 1, 0))),))
    assert "head 1" not in texts(panel(EvidenceRecord(layouts=(other,)), 1))
    [sentence] = describe_evidence(EvidenceRecord(layouts=(other,)))
    assert "gives 1 head of 2 tokens with 2 channels, not 2 heads of 2 tokens" in sentence


# --------------------------------------------------------------------------------- what is said


@pytest.mark.parametrize(
    ("evidence", "said"),
    [
        (
            with_weights((0.2, 0.3, 0.12), *RIGHT[1:]),
            "output 0 gets 0.62 of the values in all, where 1 is right",
        ),
        (SUNK, "output 1 gets 1 of the values in all, where 0.75 is right"),
        (
            EvidenceRecord(WEIGHTS),
            "token 0 gives weight 0.50 to token 2, which should be hidden from it",
        ),
        (with_weights(*RIGHT[:2], (0.5, 0.2, 0.3)), "token 2 gives weight 0.50 to token 0, where"),
        (with_weights(*RIGHT[:2], (0.1, 0.2, 0.7)), "gives weight 0.70 to itself, where 0.50 is"),
        (
            with_weights(RIGHT[0], (None, 0.6, 0), (None,) * 3),
            "of tokens 1 and 2 are NaN or infinite",
        ),
        (with_weights(*RIGHT), "the weights differ by less than can be seen"),
        (
            EvidenceRecord(influence=INFLUENCE),
            "output 0 moved when token 2 changed, which should be hidden",
        ),
        (
            EvidenceRecord(influence=replace(INFLUENCE, got=((True,) * 3,) * 3)),
            "which should be hidden from it, and 2 more like it",
        ),
        (
            EvidenceRecord(influence=replace(INFLUENCE, got=((True, False, False),) * 3)),
            "output 1 did not move when token 1 changed, which it should see",
        ),
        (EvidenceRecord(influence=replace(INFLUENCE, got=TRIANGLE)), "Just those outputs moved"),
        (
            EvidenceRecord(layouts=(SPLIT,)),
            "3 of 4 numbers are in the wrong place: head 0, token 1 holds column 1 of token 0 "
            "instead of column 0 of token 1",
        ),
        (
            EvidenceRecord(layouts=(MERGE,)),
            "token 0 holds column 0 of token 0 and column 0 of token 1 instead of columns 0–1",
        ),
        (EvidenceRecord(layouts=(replace(MERGE, got=MERGE.expected),)), "Every number is where"),
    ],
)
def test_caption_states_the_main_finding(evidence: EvidenceRecord, said: str) -> None:
    [sentence] = describe_evidence(evidence)
    assert said in sentence
    assert drawn(evidence)[0].sentence == sentence


def test_incomplete_rows_are_not_summed() -> None:
    part = with_weights((0.3,), (0.3,), expected=((0.5,), (0.5,)), queries=(4, 5), keys=(0,))
    part = EvidenceRecord(replace(part.weights, may_attend=((True,), (True,))))  # type: ignore[type-var]
    assert "sums" not in describe_evidence(part)[0]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"),
        (1.0, "1"),
        (0.999, "1.00"),
        (0.25, "0.25"),
        (-0.25, "−0.25"),
        (4.54e-5, "5e-5"),
        (12.3, "12"),
        (-54321.0, "−5e4"),
        (1e300, "1e300"),
        (None, "NaN"),
        (float("inf"), "∞"),
    ],
)
def test_numbers_are_short(value: float | None, shown: str) -> None:
    assert format_number(value) == shown
    assert format_number(0.3, signed=True) == "+0.30"


@pytest.mark.parametrize(
    ("one", "other", "shown"),
    [
        (0.25, 0.5, ("0.25", "0.50")),
        (0.5219, 0.5207, ("0.522", "0.521")),
        (0.0, 1e-7, ("0", "1e-7")),
        (-0.3331, -0.3332, ("−0.3331", "−0.3332")),
    ],
)
def test_different_numbers_are_formatted_differently(
    one: float, other: float, shown: object
) -> None:
    assert format_distinct(one, other) == shown


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_any_different_numbers_are_formatted_differently(one: float, other: float) -> None:
    shown = format_distinct(one, other)
    assert (shown[0] != shown[1]) or one == other


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.lists(st.none() | finite, min_size=3, max_size=3), min_size=3, max_size=3))
def test_any_numbers_can_be_drawn(rows: list[list[float | None]]) -> None:
    """`drawn` fails unless every picture is well-formed."""
    drawn(with_weights(*map(tuple, rows)))


def test_hostile_labels_stay_labels() -> None:
    weights = replace(WEIGHTS, case=HOSTILE, of=HOSTILE, made=HOSTILE)
    layout = replace(SPLIT, of=HOSTILE, step=HOSTILE)
    evidence = EvidenceRecord(weights, replace(INFLUENCE, case=HOSTILE), (layout,))
    for picture in drawn(evidence):
        assert not any("<script" in each for each in picture.panels)
        assert not UNSAFE.search("".join(picture.panels) + picture.legend)
        assert len(picture.legend) < 1500
    page = html.render_all(Report(1, "0", (make_submission(claim(evidence)),)))
    assert "<script" not in page and "\x1b" not in page


# ------------------------------------------------------------------------------------- colours


def test_colours_can_be_told_apart_by_their_lightness_alone() -> None:
    steps = [i / 20 for i in range(21)]
    falling = [colours.compute_luminance(colours.sequential(s)) for s in steps]
    assert all(a > b for a, b in itertools.pairwise(falling))
    for sign in (1, -1):
        half = [colours.compute_luminance(colours.diverging(sign * s)) for s in steps]
        assert all(a > b for a, b in itertools.pairwise(half))


@given(st.floats(-2, 2))
def test_numbers_stand_out_on_their_cells(share: float) -> None:
    for colour in (colours.sequential(share), colours.diverging(share), *colours.CATEGORICAL):
        assert re.fullmatch("#[0-9a-f]{6}", colour)
        text_light = 1.0 if colours.choose_text_colour(colour) == "#fff" else 0.0
        dark, light = sorted((colours.compute_luminance(colour), text_light))
        assert (light + 0.05) / (dark + 0.05) >= 4.5  # WCAG 2, 1.4.3


def test_the_two_sides_of_a_difference_are_blue_and_orange() -> None:
    less, more = colours.diverging(-1), colours.diverging(1)
    assert int(less[5:], 16) > int(less[1:3], 16)
    assert int(more[5:], 16) < int(more[1:3], 16)
    assert colours.diverging(0) == colours.diverging(0.001)


# ---------------------------------------------------------------------------- pages and source


def claim(evidence: EvidenceRecord | None = ALL) -> PropertyRecord:
    message = "It is equal.\n  expected  1\n  got       2"
    record = PropertyRecord("equal", "It is equal.", "values", "failed", 0, 2, message)
    return replace(record, evidence=evidence)


EXCERPT = Excerpt(4, 25, "q = self.W_q(x)\nscores = q @ k\n\treturn scores", (26,))
NAMED = DiagnosisRecord("no_scale", "The scores are not scaled.", 4, 26, 5, 5)


def page(record: SubmissionRecord) -> str:
    return html.render_page(record, Report(1, "0", (record,)))


def test_pictures_are_next_to_their_property() -> None:
    shown = page(make_submission(claim()))
    assert shown.count('<svg xmlns="http://www.w3.org/2000/svg" role="img"') == 9
    assert shown.count("<figcaption>") == 4
    assert page(make_submission(claim(None))).count("<svg") == 0


def test_text_states_the_main_finding_once() -> None:
    shown = text.render(
        Report(1, "0", (make_submission(claim(EvidenceRecord(WEIGHTS, INFLUENCE))),))
    )
    seen = "    seen      On another input: with 3 tokens, token 0 gives weight 0.50 to token 2"
    assert shown.count(seen) == 1 and "(tokens are counted from 0)." in shown
    assert shown.count("seen") == 1


def test_the_faulty_line_is_marked_and_says_why() -> None:
    record = make_submission(claim(), source=(EXCERPT,), diagnosis=(NAMED,))
    [source] = make_view(record).source
    assert source.title == "Your code, cell 4"
    shown = [(line.number, line.marked, line.why) for line in source.lines]
    assert shown == [(25, False, ()), (26, True, (NAMED.sentence,)), (27, False, ())]
    assert source.lines[2].text == "    return scores"
    marked = '<mark><code style="--indent: 2ch">scores = q @ k</code></mark>'
    assert f'<li value="26" class="marked">{marked}' in page(record)
    coloured = '<span class="k">    return</span> scores'
    assert f'<code style="--indent: 6ch">{coloured}</code>' in page(record)


def test_lines_around_the_faulty_one_are_marked_less() -> None:
    all_marked = replace(EXCERPT, marked=(25, 26, 27))
    record = make_submission(claim(), source=(all_marked,), diagnosis=(NAMED,))
    [source] = make_view(record).source
    assert [line.around for line in source.lines] == [True, False, True]
    assert page(record).count('class="marked around"') == 2
    unknown = replace(NAMED, cell=None, line=None)
    [source] = make_view(replace(record, diagnosis=(unknown,))).source
    assert [(line.marked, line.around) for line in source.lines] == 3 * [(True, False)]


def test_the_lines_of_a_place_have_its_sentence_only_if_there_is_one() -> None:
    lines = tuple(LineRecord(4, n) for n in (25, 26))
    for count, told in ((1, ["Look there."]), (2, [])):
        place = PlaceRecord("Look there.", lines[:count])
        record = make_submission(claim(), source=(EXCERPT,), place=place)
        assert [said for _, _, said in list_located(record)] == told


def test_a_marked_line_says_how_it_crashed() -> None:
    got = "  got       ValueError: no (cell 4, line 26)"
    told = f"It is built.\n{got}\n  because   A size is wrong: `k`."
    first, second = (
        replace(claim(), claim=name, status="crashed", message=message, cell=4, line=26)
        for name, message in (("It is built.", told), ("It is called.", f"It is called.\n{got}"))
    )
    [source] = make_view(make_submission(first, second, source=(EXCERPT,))).source
    crashed = "It crashed: ValueError: no. A size is wrong: `k`."
    assert [line.why for line in source.lines] == [(), (crashed,), ()]
    assert "↑" not in page(make_submission(claim(), source=(EXCERPT,)))


def test_error_is_shown_at_its_line() -> None:
    error = ErrorRecord("syntax", "'(' was never closed", None, 2)
    record = make_submission(error=error, source=(Excerpt(None, 1, "a\nb(", (2,)),))
    [source] = make_view(record).source
    assert source.title == "Your code"
    assert source.lines[1].why == ("'(' was never closed",)


def test_a_marked_line_is_not_cut_where_the_mistake_is() -> None:
    long = f"x = ({'0 + ' * 200}queries @ keys)"
    record = make_submission(source=(Excerpt(None, 1, f"{long}\n{long}", (2,)),))
    [source] = make_view(record).source
    cut, whole = (line.text for line in source.lines)
    assert whole == long and "shortened" in cut


def test_hostile_source_is_text_and_has_an_end() -> None:
    lines = "\n".join(["</code><script>alert(1)</script>\x1b[2J\u202e" + "y" * 999] * 999)
    record = make_submission(source=(Excerpt(1, 1, lines, (1,)),) * 50)
    shown = make_view(record).source
    assert len(shown) == MAX_EXCERPTS
    assert len(shown[0].lines) <= MAX_SOURCE_LINES
    marked, *others = shown[0].lines
    assert len(marked.text) <= MAX_MARKED_LENGTH
    assert max(len(line.text) for line in others) <= MAX_LINE_LENGTH
    written = page(record)
    assert "<script" not in written and not UNSAFE.search(written)
    assert len(written) < 1_000_000
