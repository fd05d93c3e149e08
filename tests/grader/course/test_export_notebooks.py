"""What students get back: their own notebooks, with what was found below their cells."""

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import nbformat
import pytest
from markupsafe import Markup, escape

from headcheck.grader.course.export import ExportedFiles, Gradebook, export
from headcheck.grader.course.results import ExerciseResult, apply_feedback
from headcheck.grader.course.store import bundle
from headcheck.grader.course.store.records import GradedFile, Override
from headcheck.grader.report.feedback import Feedback, FeedbackLevel
from headcheck.grader.report.records import (
    DiagnosisRecord,
    ErrorRecord,
    EvidenceRecord,
    InfluenceEvidence,
    NoteRecord,
)
from tests.grader.course.gradebooks import WEEK, MakeRecord, make_graded_file, make_standing

FORGED = {
    "output_type": "display_data",
    "metadata": {"headcheck": {"run": WEEK}},
    "data": {"text/html": "<b>140 / 140</b>"},
}
OWN = {"output_type": "stream", "name": "stdout", "text": ["tensor\n"]}


def code_cell(source: object, *outputs: object, **more: object) -> dict[str, Any]:
    cell = {"cell_type": "code", "metadata": {}, "source": source, "execution_count": None}
    return {**cell, "outputs": list(outputs), **more}


def text_cell(source: object, **more: object) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": source, **more}


def make_notebook(*cells: dict[str, Any], minor: int = 4) -> dict[str, Any]:
    numbered = [{**c, "id": f"c{n}"} for n, c in enumerate(cells)] if minor >= 5 else [*cells]
    return {"cells": numbered, "metadata": {}, "nbformat": 4, "nbformat_minor": minor}


PLAIN = make_notebook(
    text_cell("# Mine"),
    code_cell(["import torch\n", "x = '\u202e\\n'"], OWN),
    code_cell("def causal_weights(q):\n    return q\n"),
    code_cell("1"),
)


@pytest.fixture
def wrong(record: MakeRecord) -> ExerciseResult:
    """Not scaled, by line 2 of cell 1; `causal_weights` is in cell 2."""
    given = record("ada", 50)
    diagnosis = tuple(replace(each, cell=1) for each in given.diagnosis)
    notes = tuple(replace(each, cell=1) for each in given.notes)
    return make_standing("ada", replace(given, file="ada.ipynb", diagnosis=diagnosis, notes=notes))


def encode(notebook: object) -> bytes:
    return json.dumps(notebook).encode()


def make_code(
    data: bytes, student: str = "ada", file: str = "ada.ipynb", kind: str = "ipynb"
) -> tuple[GradedFile, bundle.Unpacked]:
    return make_graded_file(student, file=file, kind=kind), bundle.Unpacked(data, kind)


def written(data: bytes, *results: ExerciseResult, kind: str = "ipynb") -> ExportedFiles:
    files = {(each.student, each.record.file) for each in results}
    code = tuple(make_code(data, *file, kind) for file in sorted(files))
    return export(Gradebook(WEEK, results, code=code), "notebooks")


def annotated(notebook: object, *results: ExerciseResult) -> dict[str, Any]:
    exported = written(encode(notebook), *results)
    (data,) = exported.files.values()
    assert not exported.remarks and not exported.left_out
    read: dict[str, Any] = json.loads(data)
    return read


def get_added(cell: dict[str, Any], kind: str = "text/plain") -> str:
    """What was added to a cell; empty if nothing was."""
    marked = [o for o in cell.get("outputs", []) if "headcheck" in o.get("metadata", {})]
    assert len(marked) == ("headcheck" in cell["metadata"]) <= 1
    assert marked == cell.get("outputs", [])[len(cell.get("outputs", [])) - len(marked) :]
    return str(marked[0]["data"][kind]) if marked else ""


def take_out(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook without what bears the mark, as anybody could take it out."""
    bare = copy.deepcopy(notebook)
    for cell in bare["cells"]:
        if cell["metadata"].pop("headcheck", None) is not None:
            cell["outputs"].pop()
    return bare


# ----------------------------------------------------------------------------- what is said


def test_what_was_found_is_below_the_cell_that_it_is_about(wrong: ExerciseResult) -> None:
    text, top, home, rest = annotated(PLAIN, wrong)["cells"]
    assert text == PLAIN["cells"][0] and rest == PLAIN["cells"][3]
    assert "causal_weights: 50 / 100\n" in get_added(top)
    assert "Feedback is below cells 1 and 2, nowhere else." in get_added(top)
    assert "Line 2: Not scaled." in get_added(top) and "Line 2: it prints" in get_added(top)
    assert "Fails: It is right." in get_added(home) and "expected  1 < 2" in get_added(home)
    assert "1 &lt; 2 &amp;" in get_added(home, "text/html")
    for cell in (top, home):
        assert "Feedback of week 1 by headcheck" in get_added(cell)
        assert "Feedback of week 1 by headcheck" in get_added(cell, "text/html")


def test_people_s_decisions_and_comments_are_at_the_top(wrong: ExerciseResult) -> None:
    decided = Override(WEEK, "ada", "causal_weights", 80.0, "secret reason", "prof")
    said = replace(wrong, score=80.0, override=decided, comments=("see me\n<b>soon</b>", "well"))
    notebook = annotated(PLAIN, said)
    top = get_added(notebook["cells"][1])
    assert "causal_weights: 80 / 100, decided by a person; the checks gave 50\nsee me\n" in top
    html = get_added(notebook["cells"][1], "text/html")
    assert '<p dir="auto">&lt;b&gt;soon&lt;/b&gt;</p>' in html
    assert "secret reason" not in json.dumps(notebook)


def test_right_answer_is_told_so(record: MakeRecord) -> None:
    right = make_standing("ada", replace(record("ada"), notes=(), file="ada.ipynb"))
    notebook = annotated(PLAIN, right)
    assert "100 / 100" in get_added(notebook["cells"][1])
    assert "All 2 checks pass." in get_added(notebook["cells"][2])


def test_only_what_the_run_tells_is_told(wrong: ExerciseResult) -> None:
    silent = apply_feedback(wrong, Feedback(FeedbackLevel.NAME, hidden=frozenset({"it_is_right"})))
    told = json.dumps(annotated(PLAIN, silent))
    assert "1 hidden check is not shown" in told
    assert "It is right" not in told and "expected" not in told and "Not scaled" not in told


def test_an_error_is_below_its_cell(wrong: ExerciseResult) -> None:
    error = ErrorRecord("syntax", "never closed\x1b[2J", 3, 1)
    record = replace(wrong.record, error=error, name=None, properties=(), diagnosis=())
    record = replace(record, status="not_tried")
    cells = annotated(PLAIN, replace(wrong, record=record))["cells"]
    assert "never closed\\x1b[2J (cell 3, line 1)" in get_added(cells[3])
    assert "0 / 100" in get_added(cells[3]) or "50 / 100" in get_added(cells[3])
    assert not get_added(cells[2])


def test_two_answers_in_one_notebook_have_a_place_each(
    record: MakeRecord, wrong: ExerciseResult
) -> None:
    other = replace(record("ada", 100, "linear_layer"), name="Linear", file="ada.ipynb", notes=())
    both = make_notebook(*PLAIN["cells"], code_cell("class Linear(nn.Module):\n    pass"))
    cells = annotated(both, wrong, make_standing("ada", other))["cells"]
    assert "linear_layer: 100 / 100" in get_added(cells[1])
    assert "Linear" in get_added(cells[4]) and "Linear" not in get_added(cells[2])


def test_it_reads_well_where_jupyter_removes_styles_and_pictures(wrong: ExerciseResult) -> None:
    seen = InfluenceEvidence("c", 1, 0, (0,), ((True,),), ((True,),), ((False,),))
    first, last = wrong.record.properties
    drawn = replace(last, evidence=EvidenceRecord(influence=seen))
    result = replace(wrong, record=replace(wrong.record, properties=(first, drawn)))
    for cell in annotated(PLAIN, result)["cells"][1:3]:
        html = get_added(cell, "text/html")
        assert html.count("<style>") == 1
        body = html.partition("</style>")[2]
        for tag in ("<svg", "<script", "<img", "<link", "<iframe", "<form", " on", "javascript:"):
            assert tag not in body.replace(" on ", "").replace(" one ", ""), tag
        assert "Feedback of week 1" in Markup(body).striptags()


# ------------------------------------------------------------------- what does not change


def test_sources_and_own_outputs_are_what_they_were(wrong: ExerciseResult) -> None:
    assert take_out(annotated(PLAIN, wrong)) == PLAIN


def test_a_second_export_adds_nothing(wrong: ExerciseResult) -> None:
    (once,) = written(encode(PLAIN), wrong).files.values()
    (twice,) = written(once, wrong).files.values()
    assert once == twice
    better = replace(wrong, score=51.0)
    (other,) = written(once, better).files.values()
    assert b"51 / 100" in other and b": 50 / 100" not in other


@pytest.mark.parametrize("minor", range(7))
def test_it_stays_valid_in_every_version_of_the_format(wrong: ExerciseResult, minor: int) -> None:
    before = make_notebook(*PLAIN["cells"], minor=minor)
    nbformat.validate(before)
    after = annotated(before, wrong)
    nbformat.validate(after)
    assert nbformat.reads(json.dumps(after), as_version=4).cells[2].outputs[-1].data["text/html"]
    assert take_out(after) == before


def test_ids_that_are_missing_are_added(wrong: ExerciseResult) -> None:
    before = {**PLAIN, "nbformat_minor": 5}
    after = annotated(before, wrong)
    nbformat.validate(after)
    assert [cell["id"] for cell in after["cells"]] == ["cell-1", "cell-2", "cell-3", "cell-4"]


def test_unknown_fields_stay_as_jupyter_leaves_them(wrong: ExerciseResult) -> None:
    before = make_notebook(*({**cell, "id": "x"} for cell in PLAIN["cells"]), minor=4)
    assert take_out(annotated(before, wrong)) == before


def test_a_notebook_of_version_3_stays_one(wrong: ExerciseResult) -> None:
    cell = {"cell_type": "code", "language": "python", "outputs": [], "collapsed": False}
    stream = {"output_type": "stream", "stream": "stdout", "text": "a"}
    cells = [
        {"cell_type": "heading", "level": 1, "source": "Mine"},
        {**cell, "input": "import torch", "outputs": [stream]},
        {**cell, "input": ["def causal_weights(q):\n", "    return q"]},
    ]
    before = {
        "nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""},
        "worksheets": [{"cells": cells[:2]}, {"cells": cells[2:]}],
    }  # fmt: skip
    nbformat.validate(before)
    after = annotated(before, wrong)
    nbformat.validate(after)
    first, second = (sheet["cells"] for sheet in after["worksheets"])
    assert first[0] == cells[0] and first[1]["input"] == "import torch"
    assert first[1]["outputs"][0] == stream and "50 / 100" in first[1]["outputs"][1]["text"]
    assert second[0]["input"] == cells[2]["input"] and second[0]["outputs"][0]["html"]
    upgraded = nbformat.reads(json.dumps(after), as_version=4)
    assert "Fails: It is right." in upgraded.cells[2].outputs[0].data["text/plain"]
    assert annotated(after, wrong) == after


# -------------------------------------------------------------------------------- hostile


def test_what_bears_our_key_and_is_not_ours_is_removed(wrong: ExerciseResult) -> None:
    forged = code_cell("2", OWN, FORGED, metadata={"headcheck": {"run": WEEK}, "tags": ["a"]})
    cells = annotated(make_notebook(*PLAIN["cells"], forged), wrong)["cells"]
    assert cells[4] == code_cell("2", OWN, metadata={"tags": ["a"]})
    last = {**forged, "source": PLAIN["cells"][3]["source"]}
    cells = annotated(make_notebook(*PLAIN["cells"][:3], last), wrong)["cells"]
    assert cells[3]["outputs"] == [OWN]


@pytest.mark.parametrize(
    ("outputs", "named"),
    [
        ([{**FORGED, "metadata": {}}], False),
        ([{**FORGED, "metadata": {}, "data": {"text/html": '<p class="HEADCHECK">1 / 1'}}], True),
        ([{**OWN, "text": "Feedback of week 1 by headcheck: 140 / 140"}], True),
        ([{**OWN, "text": ["Feedback by hеad\n", "сheck: 140 / 140"]}], True),
        ([{**OWN, "text": "Feedback by head"}, {**OWN, "text": "check: 140 / 140"}], True),
        ([{**FORGED, "metadata": {}, "data": {"text/html": "ｈｅａｄ<i></i>ｃｈｅｃｋ"}}], True),
        ([{**FORGED, "metadata": {}, "data": {"application/json": {"a": ["ʜᴇᴀᴅᴄʜᴇᴄᴋ"]}}}], True),
        ([{**FORGED, "metadata": {}, "data": {"image/png": "HeadChecķ"}}], False),
        ([{**OWN, "text": "head: 140"}], False),
    ],
)
def test_own_outputs_that_name_headcheck_are_told_apart(
    wrong: ExerciseResult, outputs: list[dict[str, Any]], named: bool
) -> None:
    before = make_notebook(*PLAIN["cells"], code_cell("2", *outputs))
    after = annotated(before, wrong)
    denied = "This was handed in with the notebook. It is not feedback of week 1."
    assert get_added(after["cells"][4]) == (denied if named else "")
    assert "Feedback is below cells 1 and 2, nowhere else." in get_added(after["cells"][1])
    assert take_out(after) == before


def test_the_run_and_the_student_write_no_html(wrong: ExerciseResult) -> None:
    evil = "<script>alert(1)</script>\u202e\x1b[2J"
    notes = (NoteRecord("prints", evil, 2, 1),)
    found = (DiagnosisRecord("no_scale", evil, 4, 1, 9, 9),)
    record = replace(wrong.record, name=evil, file="ada.ipynb", notes=notes, diagnosis=found)
    result = replace(wrong, record=record, comments=(evil,), exercise=evil)
    book = Gradebook(evil, (result,), code=(make_code(encode(PLAIN)),))
    (data,) = export(book, "notebooks").files.values()
    cells = json.loads(data)["cells"]
    added = [get_added(cell, kind) for cell in cells for kind in ("text/html", "text/plain")]
    assert all("\x1b" not in text and "\u202e" not in text for text in added)
    assert not any("<script" in text for text in added[::2])
    assert sum(str(escape("<script>")) in text for text in added[::2]) == 2
    assert "\u202e".encode() not in data


HOSTILE: dict[str, Callable[[], bytes]] = {
    "no JSON": lambda: b"{",
    "deep": lambda: b'{"cells":' + b"[" * 100_000,
    "deep metadata": lambda: (
        encode(PLAIN)
        .replace(b'"metadata": {}', b'"metadata": {"a": ' + b"[" * 900 + b"]" * 900 + b"}")
        .replace(b'"nbformat": 4', b'"nbformat": "4"')
    ),
    "no code": lambda: encode(make_notebook(text_cell("a"))),
    "no outputs": lambda: encode(make_notebook({**code_cell("a"), "outputs": None})),
    "no metadata": lambda: encode(make_notebook(code_cell("a"), {"cell_type": "code"})),
    "a cell of another type": lambda: encode(make_notebook(code_cell("a"), {"cell_type": "evil"})),
    "cells that are numbers": lambda: encode({**PLAIN, "cells": [*PLAIN["cells"], 1]}),
    "outputs that are texts": lambda: encode(make_notebook(code_cell("a", "b"))),
    "metadata of outputs": lambda: encode(make_notebook(code_cell("a", {**FORGED, "metadata": 1}))),
    "ids of lists": lambda: encode({**make_notebook(code_cell("a", id=[1])), "nbformat_minor": 5}),
    "ids twice": lambda: encode(
        {**PLAIN, "nbformat_minor": 5, "cells": [{**c, "id": "x"} for c in PLAIN["cells"]]}
    ),
    "version 9": lambda: encode({**PLAIN, "nbformat": 9}),
    "version of text": lambda: encode({**PLAIN, "nbformat": "4"}),
    "minor version of text": lambda: encode({**PLAIN, "nbformat_minor": "5"}),
    "no version": lambda: encode({"cells": PLAIN["cells"]}),
    "not a number": lambda: encode(PLAIN).replace(b'"metadata": {}', b'"metadata": {"a": NaN}'),
    "too large a number": lambda: encode(PLAIN).replace(
        b'"metadata": {}', b'"metadata": {"a": 1e999}'
    ),
    "version 3 and cells of 4": lambda: encode({**PLAIN, "nbformat": 3}),
    "claims without end": lambda: encode(
        make_notebook(*(code_cell("a", {**OWN, "text": "headcheck"}) for _ in range(200)))
    ),
}


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_an_invalid_notebook_becomes_a_page(
    wrong: ExerciseResult, make: Callable[[], bytes]
) -> None:
    exported = written(make(), replace(wrong, comments=("see me",)))
    assert list(exported.files) == ["ada.html"]
    page = exported.files["ada.html"].decode()
    assert "Fails: It is right." in page and '<p dir="auto">see me</p>' in page
    (remark,) = exported.remarks
    assert remark.startswith("ada (ada.ipynb): a page, since: The ") and remark.isprintable()


def test_outputs_of_types_to_come_stay(wrong: ExerciseResult) -> None:
    new = {"output_type": "hologram", "metadata": 1}
    before = make_notebook(*PLAIN["cells"], code_cell("2", new), minor=99)
    after = annotated(before, wrong)
    assert take_out(after) == before and after["cells"][4]["outputs"] == [new]


def test_surrogates_attachments_and_large_outputs_stay(wrong: ExerciseResult) -> None:
    picture = {"image.png": {"image/png": "aGVhZGNoZWNr"}}
    before = make_notebook(
        text_cell("![](attachment:image.png)", attachments=picture),
        code_cell("a = '\ud800'", {**OWN, "text": "x" * 3_000_000}),
        *(code_cell(f"{n}") for n in range(3000)),
    )
    after = annotated(before, wrong)
    assert take_out(after) == before
    assert "Line 2: Not scaled." not in get_added(after["cells"][2])


# ---------------------------------------------------------------------------------- files


def test_other_files_become_pages_and_every_file_has_a_name_of_its_own(
    record: MakeRecord, wrong: ExerciseResult
) -> None:
    second = replace(record("ada", 0, "linear_layer"), file="b.ipynb")
    (first, other) = written(encode(PLAIN), wrong, make_standing("ada", second)).files
    assert (first, other) == ("ada.ipynb", "ada.2.ipynb")
    exported = written(b"x = 1", wrong, kind="py")
    assert list(exported.files) == ["ada.html"] and not exported.remarks
    assert export(Gradebook(WEEK, (wrong,)), "notebooks").files.keys() == {"ada.html"}


def test_waiting_students_are_left_to_the_command(wrong: ExerciseResult) -> None:
    assert not written(encode(PLAIN), replace(wrong, status="not_judged")).files


@pytest.mark.parametrize(
    ("file", "handle", "name"),
    [
        ("submitted/ada/ps1/attention 1.ipynb", "ada", "ada/ps1/attention 1.ipynb"),
        ("course/submitted/ada/ps1/a.ipynb", "ada", "ada/ps1/a.ipynb"),
        ("submitted/ada/../a.ipynb", "ada", "ada/%2E%2E/a.ipynb"),
        ("submitted/bob/ps1/a.ipynb", "ada", "s1.ipynb"),
        ("submitted/ada/ps1/b/a.ipynb", "ada", "s1.ipynb"),
        ("ada/ps1/a.ipynb", "ada", "s1.ipynb"),
    ],
)
def test_files_of_nbgrader_keep_their_places(
    wrong: ExerciseResult, file: str, handle: str, name: str
) -> None:
    result = replace(wrong, student="s1", handle=handle, record=replace(wrong.record, file=file))
    assert list(written(encode(PLAIN), result).files) == [name]


def test_no_file_takes_the_place_of_another(wrong: ExerciseResult) -> None:
    record = replace(wrong.record, file="submitted/ada/ps1/a.ipynb")
    results = [replace(wrong, student=s, handle="ada", record=record) for s in ("s1", "s2")]
    assert list(written(encode(PLAIN), *results).files) == ["ada/ps1/a.ipynb", "s2.ipynb"]


def test_cells_that_were_run_in_another_order_keep_their_feedback(wrong: ExerciseResult) -> None:
    text, top, home, rest = PLAIN["cells"]
    shuffled = text, {**top, "execution_count": 7}, {**home, "execution_count": 3}, rest
    located = tuple(replace(each, cell=7) for each in wrong.record.diagnosis)
    record = replace(wrong.record, diagnosis=located, notes=())
    after = annotated(make_notebook(*shuffled), replace(wrong, record=record))["cells"]
    assert "Feedback is below cells 7 and 3, nowhere else." in get_added(after[1])
    assert "Line 2: Not scaled." in get_added(after[1]) and get_added(after[2])
