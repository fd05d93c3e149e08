"""An answer that stops because of one slip is judged with the edit that undoes it, at a price."""

import ast
import itertools
from dataclasses import replace

import pytest

from headcheck.exercises import ALL, BY_SLUG, Exercise
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.cells import SourceCell, SubmissionSource, read_source
from headcheck.grader.reading.edits import apply_edit, prepend, replace_node
from headcheck.grader.report.feedback import Feedback, FeedbackLevel, redact_submission
from headcheck.grader.report.points import score_again
from headcheck.grader.report.records import PropertyRecord, RepairRecord, SubmissionRecord
from headcheck.grader.report.render.outcome import describe_outcome
from headcheck.grader.report.render.overview import ClassResult, group_endings, group_mistakes
from headcheck.grader.report.render.sentences import describe_properties
from headcheck.grader.sandbox.limits import Limits
from headcheck.grader.sandbox.worker.slips import list_slips
from tests.grader.conftest import GradeNotebook, GradeText

EXERCISE = BY_SLUG["self_attention_v2"]
ASKED = Settings(exercise=EXERCISE)
ANSWER = """\
import torch
from torch import nn


class SelfAttention_v2(nn.Module):
    def __init__(self, d_in, d_out, qkv_bias=False):
        super().__init__()
        self.d_out = d_out
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)

    def forward(self, x):
        queries, keys, values = self.W_query(x), self.W_key(x), self.W_value(x)
        scores = queries @ keys.T / self.d_out**0.5
        weights = torch.softmax(scores, dim=-1)
        return weights @ values
"""
SLIPS = {
    "name": ("keys.T", "kesy.T", 15),
    "attribute": ("self.W_key(x)", "self.W_keys(x)", 14),
    "function": ("torch.softmax", "torch.sofmax", 16),
    "return": ("    return weights @ values", "    weights @ values", 17),
    "assigned": ("    return weights @ values", "    context = weights @ values", 17),
    "import": ("from torch import nn\n", "\n", 5),
    "self": ("self.d_out**", "d_out**", 15),
    "parent": ("        super().__init__()\n", "        pass\n", 7),
    "kept": ("self.d_out = d_out", "pass", 7),
    "left behind": ("        scores =", "        raise NotImplementedError\n        scores =", 15),
    "method": ("def forward", "def forword", 13),
    "constructor": ("def __init__(", "def __int__(", 6),
    "no self": ("forward(self, x)", "forward(x)", 13),
    "keyword": ("dim=-1", "dims=-1", 16),
    "not called": ("self.W_value(x)", "self.W_value", 14),
}
"""what stands where, and what a slip makes of it, with the line that the student is told"""


def slip(kind: str) -> str:
    right, wrong, _ = SLIPS[kind]
    assert right in ANSWER
    return ANSWER.replace(right, wrong, 1)


# ------------------------------------------------------------------------------- verdicts


@pytest.mark.sampled("kind", SLIPS, list(SLIPS)[::2])
def test_one_slip_costs_its_price_and_is_told_by_its_line(grade_text: GradeText, kind: str) -> None:
    record = grade_text(slip(kind), ASKED)
    assert record.repair is not None
    assert (record.repair.line, record.repair.price) == (SLIPS[kind][2], 15)
    assert record.status == "repaired"
    assert record.score == pytest.approx(0.85 * record.max_score, abs=0.01)
    assert {each.status for each in record.properties} == {"passed"}


def test_a_right_answer_has_no_slip(grade_text: GradeText) -> None:
    record = grade_text(ANSWER, ASKED)
    assert (record.repair, record.score) == (None, record.max_score)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (" / self.d_out**0.5", ""),
        ("dim=-1", "dim=0"),
        ("return weights @ values", "return values"),
        ("return weights @ values", "return 0 * values"),
    ],
)
def test_an_answer_that_computes_something_is_judged_by_that(
    grade_text: GradeText, right: str, wrong: str
) -> None:
    record = grade_text(ANSWER.replace(right, wrong))
    assert record.repair is None
    assert record.score < 0.85 * record.max_score


def test_a_slip_is_not_undone_if_there_is_a_mistake_besides(
    grade_text: GradeText,
) -> None:
    record = grade_text(slip("name").replace(" / self.d_out**0.5", ""))
    assert (record.repair, record.score) == (None, 0)


@pytest.mark.parametrize(
    "statement", ["import os; os._exit(0)", "raise SystemExit", "while True: pass"]
)
def test_what_ends_its_process_has_no_slip(grade_text: GradeText, statement: str) -> None:
    text = ANSWER.replace("        scores =", f"        {statement}\n        scores =")
    record = grade_text(text, Settings(limits=Limits(call_s=1)))
    assert (record.repair, record.score) == (None, 0)


def test_two_slips_are_not_undone(grade_text: GradeText) -> None:
    record = grade_text(slip("name").replace("self.W_value(x)", "self.W_vlaue(x)"))
    assert (record.repair, record.score) == (None, 0)


def test_what_is_no_slip_keeps_its_place_in_points(grade_text: GradeText) -> None:
    """Only a transposed input cannot be viewed; that the answer stops before costs more."""
    text = ANSWER.replace(
        "        queries, keys", "        x = x.view(-1, x.shape[-1])\n        queries, keys"
    )
    whole, cut = grade_text(text), grade_text(text.replace("keys.T", "kesy.T"))
    assert cut.repair is not None
    assert cut.score == pytest.approx(0.85 * whole.score, abs=0.02)


def test_a_loop_that_an_edit_would_make_endless_ends(
    grade_text: GradeText,
) -> None:
    text = ANSWER.replace(
        "        return weights",
        "        n = 3\n        while n:\n            n = n - oen\n        return weights",
    )
    record = grade_text(text)
    assert record.status == "crashed"


def test_a_notebook_is_told_the_cell(grade_notebook: GradeNotebook) -> None:
    cells = slip("attribute").split("\n\n\n")
    [record] = grade_notebook(*cells, slug=EXERCISE.slug).values()
    assert record.repair is not None
    assert (record.repair.cell, record.repair.line) == (2, 10)
    assert (record.repair.before, record.repair.after) == ("self.W_keys", "self.W_key")


# --------------------------------------------------------------------------------- points


@pytest.mark.parametrize("price", [0.0, 40.0, 100.0])
def test_a_course_sets_the_price(grade_text: GradeText, price: float) -> None:
    record = grade_text(slip("name"), Settings(exercise=EXERCISE, slip=price))
    kept = record.max_score * (1 - price / 100)
    assert record.score == pytest.approx(kept, abs=0.01)
    cheaper = score_again(record, EXERCISE, None, 0.01, 10)
    assert cheaper.score == pytest.approx(0.9 * record.max_score, abs=0.01)
    assert cheaper.repair == replace(record.repair, price=10)  # type: ignore[type-var]


# -------------------------------------------------------------------------------- what is told


REPAIR = RepairRecord(
    None, 15, "NameError: name 'kesy' is not defined (line 15)", "kesy", "keys", 15
)
RECORD = SubmissionRecord(
    "a.py", "a", "e", "f", 85.0, 100.0, "repaired", 0.1, repair=REPAIR
)  # fmt: skip


@pytest.mark.parametrize(
    ("level", "told"),
    [
        ("name", ("It stops with an error.", "With one change at line 15")),
        ("case", ("It stops: NameError: name 'kesy' is not", "With one change at line 15")),
        ("full", ("It stops: NameError: name 'kesy' is not", "With `keys` instead of `kesy` at")),
    ],
)
def test_the_edit_itself_is_told_only_with_everything(level: str, told: tuple[str, ...]) -> None:
    shown = redact_submission(RECORD, Feedback(FeedbackLevel(level)))
    assert shown.status == "repaired"
    lines = describe_outcome(shown)
    assert all(line.startswith(start) for line, start in zip(lines, told, strict=True))
    assert lines[-1].endswith("It was judged with this change, which costs 15 % of the points.")


def test_an_import_is_told_where_it_belongs() -> None:
    """The line that stops may be inside a method."""
    repair = replace(REPAIR, before="", after="import math", at_head=True)
    for cell, place in ((None, "file"), (3, "notebook")):
        lines = describe_outcome(replace(RECORD, repair=replace(repair, cell=cell)))
        assert lines[1].startswith(f"With `import math` added at the head of the {place} all")
        told = redact_submission(RECORD, Feedback(FeedbackLevel("name"))).repair
        assert told is not None
        told = replace(told, at_head=True, cell=cell)
        lines = describe_outcome(replace(RECORD, repair=told))
        assert lines[1].startswith(f"With one change at the head of the {place} all essential")


@pytest.mark.parametrize(
    ("count", "hidden", "said"),
    [
        (1, 0, "The check passes with this change."),
        (2, 0, "All 2 checks pass with this change."),
        (2, 1, "All 2 checks that are shown pass with this change."),
    ],
)
def test_checks_pass_with_the_change(count: int, hidden: int, said: str) -> None:
    held = [PropertyRecord(f"p{i}", f"P{i}.", "values", "passed", 1, 1) for i in range(count)]
    record = replace(RECORD, properties=tuple(held), hidden=hidden)
    assert describe_properties(record)[0] == said
    assert describe_properties(replace(record, repair=None))[0] == said.replace(
        " with this change", ""
    )


def test_slips_are_one_mistake_only_if_their_changes_are_the_same() -> None:
    other = replace(REPAIR, before="", after="return context")
    repairs = {"ada": REPAIR, "bob": other, "cyd": replace(REPAIR, line=9), "dan": None}
    entries = [
        ClassResult(replace(RECORD, repair=repair), name, "", 85.0, 100.0)
        for name, repair in repairs.items()
    ]
    groups = {g.sentence: [m.label for m in g.members] for g in group_mistakes(entries)}
    assert groups == {
        "It stops without one change: `keys` instead of `kesy`.": ["ada", "cyd"],
        "It stops without one change: `return context` added.": ["bob"],
    }


def test_slips_whose_changes_are_not_told_are_no_mistake_in_common() -> None:
    hidden = redact_submission(RECORD, Feedback(FeedbackLevel("name")))
    entry = ClassResult(hidden, "ada", "", 85.0, 100.0)
    assert group_mistakes([entry]) == ()
    [group] = group_endings([entry])
    assert group.reason == "It stops, and one change repairs it."
    assert group.members[0].details == " ".join(describe_outcome(hidden))


def test_what_is_only_added_is_told_as_such() -> None:
    added = replace(RECORD, repair=replace(REPAIR, before="", after="return context"))
    assert describe_outcome(added)[1].startswith("With `return context` added at line 15 all")


# ---------------------------------------------------------------------------------- edits


def test_edits_are_listed_for_every_kind_of_expression() -> None:
    """Expressions with a body are no functions, and the parts of f-strings have no positions."""
    text = (
        "class A:\n    def forward(self, x):\n        return (lambda y: y if y else 0)(f'{x}', q)\n"
    )
    assert list_slips(read_source(text.encode(), "py"), "A", (None, 3)) == ()


@pytest.mark.parametrize("exercise", ALL, ids=lambda exercise: exercise.slug)
def test_every_edit_is_python_and_moves_no_line(exercise: Exercise) -> None:
    source = read_source(exercise.solution.encode(), "py")
    lines = exercise.solution.count("\n")
    stops = [None, *((None, line) for line in range(1, lines, max(1, lines // 8)))]
    listed = [list_slips(source, exercise.contract.name, stop) for stop in stops]
    for edit in dict.fromkeys(itertools.chain.from_iterable(listed)):
        changed = apply_edit(source, edit).cells
        if edit.line:
            assert changed[0].text.count("\n") == lines
        for cell in changed:
            ast.parse(cell.text)


def test_edits_count_bytes_as_python_does() -> None:
    text = "π = 'ähnlich'; keys = querys\n"
    source = SubmissionSource((SourceCell(3, text), SourceCell(4, text)))
    tree = ast.parse(text)
    [name] = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == "querys"]
    edited = apply_edit(source, replace_node(3, name, ast.Name("queries")))
    assert edited.cells[0].text == "π = 'ähnlich'; keys = queries\n"
    assert edited.cells[1].text == text


def test_an_import_stands_before_everything() -> None:
    source = SubmissionSource((SourceCell(1, "x = 1\n"),))
    assert [cell.text for cell in apply_edit(source, prepend("import math")).cells] == [
        "import math",
        "x = 1\n",
    ]
