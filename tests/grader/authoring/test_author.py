"""A solution becomes an exercise that is certified; a wrong one is refused, and nothing written."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from headcheck.exercises import Exercise
from headcheck.exercises.answers import Answer, load_bank
from headcheck.exercises.contract_file import load_exercise
from headcheck.exercises.contract_writer import write_contract
from headcheck.exercises.starter import render_module, render_notebook
from headcheck.grader.audit.matrix import check_answer, load_answers
from headcheck.grader.audit.mutants import generate_mutants, load_equivalents
from headcheck.grader.authoring import answers, rewrites
from headcheck.grader.authoring.author import Authored, author
from headcheck.grader.authoring.recognising import WrongSolution
from headcheck.grader.batch.plan import get_batch_plan
from headcheck.grader.grading.grade import grade_file_or_raise
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.submission import Submission
from headcheck.grader.report.records import SubmissionRecord
from headcheck.grader.sandbox.grader_side.servers import ServerHandle
from headcheck.grader.ui import author_command
from headcheck.properties.cases.case_set import PUBLIC_SEED
from tests.commands import Command, Ran, one_line
from tests.notebooks import write_notebook

HERE = Path(__file__).parent
SOLUTIONS = sorted(path.stem for path in (HERE / "solutions").glob("*.py"))
WRONG = {
    "softmax_over_queries": ("additive_mask", "softmax(scores, dim=-1)", "softmax(scores, dim=-2)"),
    "no_scale": ("additive_mask", " / math.sqrt(q.size(-1))", ""),
    "merge_without_transpose": ("fused_qkv", "(att @ v).transpose(1, 2)", "(att @ v)"),
    "next_token_visible": ("per_head_packing", ".triu(1)", ".triu(2)"),
}
"""the mistakes of wrong solutions: in which right one, in place of what"""
FEW = 10
"""of so many changes one is judged, and the one that leaves the scale out: it has a name"""
UNSCALED = "-> q @ k.transpose(-2, -1)"
LIST_VARIANTS = rewrites.list_variants
SOME_VARIANTS = {
    "einsum", "inherited", "matmul", "other_names", "other_order", "softmax_by_hand",
}  # fmt: skip
"""the rewrites that an ordinary run judges, one of each kind"""
OWN = "solutions/additive_mask.py"


def write_wrong(mistake: str, folder: Path) -> Path:
    name, right, wrong = WRONG[mistake]
    file = folder / "wrong.py"
    text = (HERE / "solutions" / f"{name}.py").read_text()
    assert text.count(right) == 1
    file.write_text(text.replace(right, wrong))
    return file


def make(server: ServerHandle, file: Path, folder: Path) -> Authored:
    submission = Submission(file, file.name)
    return author(server, submission, Settings(), lambda *_: {}, folder, jobs=1)


def list_some_variants(exercise: Exercise) -> list[Answer]:
    variants = LIST_VARIANTS(exercise)
    return [each for each in variants if each.name in SOME_VARIANTS]


@pytest.fixture(scope="module")
def few_changes(pytestconfig: pytest.Config) -> Iterator[None]:
    """Judge the changes of the solution by a sample: all of them take a minute."""
    whole = answers.list_changes

    def list_few(exercise: Exercise) -> list[Answer]:
        every = enumerate(whole(exercise))
        return [each for n, each in every if n % FEW == 0 or each.name.endswith(UNSCALED)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answers, "list_changes", list_few)
        if not pytestconfig.getoption("whole"):
            patch.setattr(rewrites, "list_variants", list_some_variants)
        yield


@pytest.fixture(scope="module")
def authored(
    server: ServerHandle, few_changes: None, tmp_path_factory: pytest.TempPathFactory
) -> Authored:
    return make(server, HERE / OWN, tmp_path_factory.mktemp("course") / "mha")


@pytest.fixture(scope="module")
def exercise(authored: Authored) -> Exercise:
    return load_exercise(authored.folder)


def grade(server: ServerHandle, exercise: Exercise, file: Path) -> SubmissionRecord:
    settings = Settings(exercise=exercise)
    (record,) = grade_file_or_raise(server, Submission(file, file.name), settings)
    return record


# ----------------------------------------------------------------------------- certified


@pytest.mark.whole
@pytest.mark.sampled("name", SOLUTIONS, [Path(OWN).stem])
@pytest.mark.usefixtures("few_changes")
def test_a_right_solution_is_certified(
    request: pytest.FixtureRequest, server: ServerHandle, tmp_path: Path, name: str
) -> None:
    if name == Path(OWN).stem:
        authored = request.getfixturevalue("authored")  # the other tests need it, too
    else:
        authored = make(server, HERE / "solutions" / f"{name}.py", tmp_path / "own")
    assert authored.is_certified, author_command.render_authored(authored)
    assert len(authored.caught) >= 8 and authored.variants >= 6
    exercise = load_exercise(authored.folder)
    assert write_contract(exercise) == exercise.source
    assert render_notebook(exercise) and "..." in render_module(exercise)


def test_the_report_says_what_is_certified(authored: Authored) -> None:
    text = author_command.render_authored(authored)
    caught = r"\d+ wrong answers caught, \d+ kinds of mistakes named"
    assert re.search(rf"^certified: {caught}, none of \d+ right variants accused$", text, re.M)
    assert "decided: the weights may start from any numbers" in text
    assert f"headcheck grade CLASS_FOLDER --exercise {authored.folder}" in text
    recognised = author_command.render_recognised(authored.recognised)
    assert "multi-head attention of queries, keys and values" in recognised
    assert "its mask is added to the scores" in recognised


def test_the_bank_is_made_of_the_solution(authored: Authored, exercise: Exercise) -> None:
    bank = load_bank(exercise)
    right = {answer.name for answer in bank if answer.kind == "right"}
    wrong = [answer for answer in bank if answer.kind == "wrong"]
    assert {"other_names", "einsum", "softmax_by_hand", "other_order", "inherited"} <= right
    assert len(wrong) >= 8
    assert all(answer.description.startswith("The change: ") for answer in wrong)
    named = [answer for answer in wrong if f"(named: {answer.name})" in answer.description]
    known = {each.mistake for each in authored.caught} - {None}
    assert "no_scale" in known <= {each.name for each in named}


def test_every_change_is_accounted_for(authored: Authored, exercise: Exercise) -> None:
    fates = [(e.caught_by is not None, e.is_equivalent, e.is_missed) for e in authored.judged]
    assert all(sum(fate) == 1 for fate in fates)
    listed = load_equivalents(exercise)
    mutants = {mutant.name for mutant in generate_mutants(exercise)}
    same = {each.answer.name for each in authored.equivalent}
    assert set(listed) == same & mutants


def test_the_starter_leaves_the_solution_out(exercise: Exercise) -> None:
    starter = render_module(exercise)
    assert "class MHA(nn.Module):" in starter
    assert "def forward(self, q, k, v, attn_mask=None):" in starter
    assert "softmax" not in starter and "def heads" not in starter


def test_the_statement_speaks_of_the_author_s_names(exercise: Exercise) -> None:
    for said in ("`embed_dim`", "`n_head`", "`q_lin.weight`", "`attn_mask` is added", "MHA("):
        assert said in exercise.statement
    assert len(exercise.hints) >= 4


# ------------------------------------------------------------------------------- grading


def test_a_right_answer_is_mostly_judged_by_its_batch(exercise: Exercise) -> None:
    solution = load_answers(exercise)[0]
    result = check_answer(solution, exercise)
    assert result.broken == () and not result.not_tried
    plan = get_batch_plan(exercise, exercise.contract.mappings, PUBLIC_SEED, "cpu")
    recorded = {prop.name for prop in plan.queries_by_property}
    assert len(recorded) >= len(exercise.properties) / 2
    assert not recorded & result.seconds.keys()  # none of these was asked again
    assert len(recorded) + len(plan.transcripts) >= len(exercise.properties) * 0.9


def test_a_right_answer_with_other_names_is_right(
    server: ServerHandle, exercise: Exercise, tmp_path: Path
) -> None:
    own = (HERE / OWN).read_text().replace("q_lin", "W_q").replace("k_lin", "W_k")
    text = own.replace("v_lin", "W_v").replace("out_lin", "W_o").replace("MHA(nn", "MhaAnna(nn")
    (tmp_path / "anna.py").write_text(text)
    assert grade(server, exercise, tmp_path / "anna.py").status == "passed"


@pytest.mark.parametrize("mistake", ["no_scale", "softmax_over_queries"])
def test_a_wrong_answer_is_caught_and_its_mistake_named(
    server: ServerHandle, exercise: Exercise, mistake: str, tmp_path: Path
) -> None:
    record = grade(server, exercise, write_wrong(mistake, tmp_path))
    assert record.status == "failed"
    assert [each.name for each in record.diagnosis] == [mistake]


# ------------------------------------------------------------------------------- refused


@pytest.mark.sampled("mistake", WRONG, ["next_token_visible"])
def test_a_wrong_solution_is_refused(server: ServerHandle, tmp_path: Path, mistake: str) -> None:
    file = write_wrong(mistake, tmp_path)
    with pytest.raises(WrongSolution) as refused:
        make(server, file, tmp_path / "own")
    record = refused.value.record
    assert [each.name for each in record.diagnosis] == [mistake]
    assert any(each.status == "failed" for each in record.properties)
    assert list(tmp_path.iterdir()) == [file]


def test_a_layer_that_is_not_called_is_refused(headcheck: Command) -> None:
    text = (HERE / "solutions" / "time_first.py").read_text()
    Path("own.py").write_text(text.replace("return self.out_proj(out)", "return out"))
    said = one_line_after(headcheck("author", "own.py"))
    assert "has weights that take no part in what it computes: `out_proj.weight`, " in said
    assert said.endswith("use them, or leave them out\n")
    assert list(Path().iterdir()) == [Path("own.py")]


def one_line_after(ran: Ran) -> str:
    """The message of a command that first says what it has recognised."""
    assert ran.code == 2 and ran.err.count("\n") == 1 and "fault" not in ran.err
    return ran.err


def test_a_refusal_says_what_is_wrong(headcheck: Command) -> None:
    file = write_wrong("no_scale", Path())
    ran = headcheck("author", str(file))
    assert (ran.code, ran.err) == (1, "")
    assert "The scores are not divided by the root of a head's width." in ran.out
    assert ran.out.endswith("refused: the solution is wrong, as said above; nothing was written\n")
    assert list(Path().iterdir()) == [file]


def test_what_is_meant_decides(headcheck: Command) -> None:
    file = str(HERE / "solutions" / "time_first.py")
    ran = headcheck("author", file, "--causal", "--yes")
    assert ran.code == 1
    assert "Nothing is hidden: every token sees all the others." in ran.out


FORWARD = (
    "from torch import nn\nclass {name}(nn.Module):\n    def forward(self, x):\n        {body}\n"
)


def test_what_is_no_attention_is_refused_with_what_was_tried(headcheck: Command) -> None:
    body = "return self.one(x) * self.gate(x).sin()"
    Path("own.py").write_text(FORWARD.format(name="Gate", body=body))
    said = one_line(headcheck("author", "own.py"))
    assert said.startswith("own.py: no class here is an attention that headcheck knows")
    assert "Tried: `Gate`: " in said and "See docs/own-course.md" in said


def test_a_class_without_weights_is_refused(headcheck: Command) -> None:
    Path("own.py").write_text(FORWARD.format(name="Twice", body="return 2 * x"))
    ran = headcheck("author", "own.py")
    assert ran.code == 2
    assert "`Twice` has no weights" in ran.err or "no class here is" in ran.err


def test_a_class_that_raises_is_refused_with_what_it_said(headcheck: Command) -> None:
    Path("own.py").write_text(FORWARD.format(name="Broken", body="return x.nothing"))
    assert "no attribute 'nothing'" in one_line(headcheck("author", "own.py"))


def test_several_classes_need_a_name(headcheck: Command) -> None:
    text = (HERE / OWN).read_text()
    Path("own.py").write_text(f"{text}\n\n{text.replace('class MHA', 'class Other')}")
    said = one_line(headcheck("author", "own.py"))
    assert said == "own.py: several classes are attention: `MHA`, `Other`; name one with --class"


def test_a_missing_class_is_reported(headcheck: Command) -> None:
    Path("own.py").write_text((HERE / OWN).read_text())
    said = one_line(headcheck("author", "own.py", "--class", "MHAA"))
    there = "there are `MHA`; name one with --class"
    assert said == f"own.py: there is no class `MHAA` with a `forward`; {there}"
    Path("none.py").write_text("x = 1\n")
    said = one_line(headcheck("author", "none.py"))
    assert said == "none.py: there is no class with a `forward`; it has none at all"


def test_what_cannot_be_decided_is_reported(headcheck: Command) -> None:
    ran = headcheck("author", str(HERE / OWN), "--dropout")
    assert ran.code == 2
    assert "it has no dropout of attention weights; leave out the option" in ran.err


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        ("taken", "taken is already there, and stays; choose another with -o"),
        ("my course", "'my course' cannot name an exercise; name it with letters"),
        ("causal_attention", "headcheck has an exercise 'causal_attention' already"),
    ],
)
def test_a_folder_that_cannot_be_is_refused_at_once(
    headcheck: Command, folder: str, message: str
) -> None:
    Path("taken").mkdir()
    assert message in one_line(headcheck("author", str(HERE / OWN), "-o", folder))


def test_a_file_that_is_none_is_reported(headcheck: Command) -> None:
    assert one_line(headcheck("author", "own.py")) == "own.py: no such file or folder"
    Path("own.txt").write_text("")
    said = one_line(headcheck("author", "own.txt"))
    assert said == "own.txt: a submission is a .ipynb or a .py file"
    Path("folder").mkdir()
    assert "folder is a folder; name the file of the solution" in headcheck("author", "folder").err
    Path("broken.ipynb").write_text("{")
    assert "broken.ipynb: cannot be read: " in one_line(headcheck("author", "broken.ipynb"))


def test_a_notebook_is_a_solution(server: ServerHandle, tmp_path: Path) -> None:
    """It is read as submissions are; here a wrong one, which is refused sooner."""
    source = write_wrong("next_token_visible", tmp_path).read_text()
    notebook = write_notebook("%matplotlib inline\nprint('a plot')", source)
    (tmp_path / "own.ipynb").write_bytes(notebook)
    with pytest.raises(WrongSolution) as refused:
        make(server, tmp_path / "own.ipynb", tmp_path / "own")
    assert [each.name for each in refused.value.record.diagnosis] == ["next_token_visible"]
