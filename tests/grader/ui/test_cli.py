"""The command: exit codes, what goes where, and that every fault is one line."""

import json
from pathlib import Path

import pytest

from headcheck.grader import run
from headcheck.grader.report.records import from_json
from headcheck.grader.report.rounding import round_points
from tests.commands import RIGHT, WRONG, Command, one_line, written
from tests.interpreter import run_python

# ------------------------------------------------------------------------------ grading


@pytest.mark.whole
def test_a_search_says_how_many_cases_it_tried(headcheck: Command) -> None:
    written(ada=RIGHT)
    ran = headcheck("check", "ada.py", "--search", "20")
    assert (ran.code, ran.err) == (0, "")  # no bar where nobody could see it
    assert "and 20 generated cases.\n" in ran.out
    told = headcheck("grade", "ada.py", "--search", "20", "--seed", "3", "--format", "json")
    [record] = from_json(told.out).submissions
    assert record.search is not None and record.search.cases == 20


@pytest.mark.parametrize("command", ["check", "grade", "audit"])
@pytest.mark.parametrize("value", ["many", "0", "3m"])
def test_a_wrong_search_is_one_line(headcheck: Command, command: str, value: str) -> None:
    written(ada=RIGHT)
    target = "linear_layer" if command == "audit" else "ada.py"
    assert one_line(headcheck(command, target, "--search", value)).startswith("--search: ")


GRADED = "1/2 ada.py: passed\n2/2 bob.py: failed\n"
"""what a log shows while a run goes on"""


def test_wrong_answers_end_with_1_and_the_reasons(headcheck: Command) -> None:
    written(ada=RIGHT, bob=WRONG)
    ran = headcheck("grade", "ada.py", "bob.py", "nobody.py")
    assert (ran.code, ran.err) == (1, GRADED)
    assert "bob.py" in ran.out and "expected" in ran.out
    assert "nobody.py: no such file or folder" in ran.out


def test_a_report_in_json_is_all_there_is_on_standard_output(headcheck: Command) -> None:
    written(ada="print('hello')\n" + RIGHT, bob=WRONG, eve="def f(:")
    ran = headcheck("grade", ".", "--format", "json")
    assert (ran.code, ran.err) == (
        1,
        "1/3 ada.py: passed\n2/3 bob.py: failed\n3/3 eve.py: not tried\n",
    )
    assert [s["student"] for s in json.loads(ran.out)["submissions"]] == ["ada", "bob", "eve"]
    report = from_json(ran.out)
    assert [s.status for s in report.submissions] == ["passed", "failed", "not_tried"]


def test_unknown_level_gives_a_one_line_error(headcheck: Command) -> None:
    written(bob=WRONG)
    said = one_line(headcheck("check", "bob.py", "--feedback", "messag"))
    assert said == (
        "--feedback: there is no level 'messag'; levels of single checks are for a course file, "
        "and --course; did you mean 'message'?"
    )


def test_a_workflow_gets_annotations_and_the_text(headcheck: Command) -> None:
    written(bob=WRONG)
    ran = headcheck("check", "bob.py", "--format", "github")
    assert ran.code == 1
    assert ran.out.startswith("::error file=bob.py,line=4,title=The mistake::The softmax runs")
    assert "\n::notice title=headcheck::bob.py: " in ran.out
    assert headcheck("check", "bob.py", "--verbose").out in ran.out


def test_verbose_shows_what_is_folded(headcheck: Command) -> None:
    written(bob=RIGHT.replace("@ x\n", "@ x.tril()\n"))
    folded, whole = headcheck("check", "bob.py"), headcheck("check", "bob.py", "--verbose")
    assert "; --verbose shows" in folded.out and "--verbose" not in whole.out
    assert len(folded.out.splitlines()) <= 25 < len(whole.out.splitlines())
    graded = headcheck("grade", "bob.py", "--seed", "0", "--verbose").out
    assert whole.out.partition("cases:")[0] == graded.partition("cases:")[0]


def test_out_is_a_folder_with_the_report_and_its_pages(headcheck: Command) -> None:
    written(ada=RIGHT, bob=WRONG)
    ran = headcheck("grade", "ada.py", "bob.py", "--out", "reports/week 1", "--format", "json")
    folder = Path("reports/week 1")
    assert ran.code == 1
    assert ran.err == f"{GRADED}report: {folder / 'index.html'}\n"
    assert (folder / "report.json").read_text() == ran.out
    pages = sorted(p.name for p in folder.glob("*.html"))
    assert len(pages) == 3 and "index.html" in pages
    index = (folder / "index.html").read_text()
    assert all(page in index for page in pages if page != "index.html")


@pytest.mark.parametrize("command", ["grade", "check"])
def test_bad_course_file_is_reported_and_nothing_is_graded(
    headcheck: Command, command: str
) -> None:
    written(ada=RIGHT)
    message = "p.toml, line 1: there is no such file: name a course file"
    assert message in one_line(headcheck(command, "ada.py", "--course", "p.toml"))
    Path("p.toml").write_text("round = 1\n[points.causal_attention]\nvalue = 1\n")
    ran = headcheck(command, "ada.py", "--course", "p.toml")
    message = "p.toml, line 3: there is no group 'value'; did you mean 'values'?"
    assert one_line(ran) == message


def test_scores_are_rounded_to_a_step(headcheck: Command) -> None:
    written(ada=WRONG)
    same = ("--seed", "0", "--format", "json")
    exact = from_json(headcheck("grade", "ada.py", *same).out).submissions[0]
    ran = headcheck("grade", "ada.py", *same, "--round", "10")
    [record] = from_json(ran.out).submissions
    assert record.score == round_points(exact.score, exact.max_score, 10) != exact.score
    assert record.properties == exact.properties
    ran = headcheck("grade", "ada.py", "--round", "0.003")
    assert (ran.code, ran.out) == (2, "")
    assert "hundredths of a point or multiples of them, not to 0.003" in ran.err


def test_what_is_written_is_not_printed_but_for_the_table(headcheck: Command) -> None:
    written(ada=RIGHT, bob=WRONG)
    ran = headcheck("grade", "ada.py", "bob.py", "--seed", "0", "--out", "week1")
    assert (ran.code, ran.err) == (1, f"{GRADED}report: {Path('week1/index.html')}\n")
    head, ada, bob, *rest = ran.out.splitlines()
    assert head.split() == ["file", "exercise", "score", "status"]
    assert ada.startswith("ada.py") and ada.endswith("passed") and bob.startswith("bob.py")
    assert rest[:2] == ["", "2 results: 1 passed, 1 failed"]
    assert not any(line.startswith("cases: ") for line in rest)
    whole = headcheck("grade", "ada.py", "bob.py", "--seed", "0").out
    assert whole.endswith(ran.out) and "expected" in whole
    again = headcheck("grade", "ada.py", "bob.py", "--seed", "0", "--out", "week1", "--verbose")
    assert all(line in again.out for line in (ada, bob, "sandbox: ", "expected"))
    alone = headcheck("grade", "bob.py", "--seed", "0", "--out", "week1").out
    assert alone.splitlines()[2:4] == ["", "1 result: 1 failed"]


# ------------------------------------------------------- what students are graded by


def test_check_knows_the_points_of_the_course_beside_the_work(headcheck: Command) -> None:
    written(ada=RIGHT)
    Path("headcheck.toml").write_text("[points.simplified_attention]\nvalues = 58\n")
    ran = headcheck("check", "ada.py")
    assert "100 / 100" in ran.out
    assert ran.err == "headcheck: course file: headcheck.toml\n"
    Path("other.toml").write_text("[points.simplified_attention]\nvalues = 59\n")
    ran = headcheck("check", "ada.py", "--course", "other.toml")
    assert "101 / 101" in ran.out and ran.err == ""


def test_a_right_answer_ends_with_0_and_is_not_graded_by_a_file_beside_it(
    headcheck: Command,
) -> None:
    written(ada=RIGHT)
    Path("headcheck.toml").write_text("[points.simplified_attention]\nvalues = 58\n")
    ran = headcheck("grade", "ada.py")
    assert (ran.code, ran.err) == (0, "")
    assert "ada.py" in ran.out and "82 / 82" in ran.out and "passed" in ran.out


def test_nobody_raises_the_level_of_an_exam(headcheck: Command) -> None:
    written(ada=WRONG)
    Path("headcheck.toml").write_text('feedback = "name"\n')
    less = headcheck("check", "ada.py")
    assert "expected" in headcheck("grade", "ada.py", "--verbose").out
    assert "expected" not in less.out and "got" not in less.out
    more = headcheck("check", "ada.py", "--feedback", "full", "--verbose")
    assert "expected" not in more.out and "got" not in more.out
    said = "headcheck: headcheck.toml lets students see less than --feedback full, and counts"
    assert more.err.splitlines() == ["headcheck: course file: headcheck.toml", said]
    assert headcheck("check", "ada.py", "--feedback", "name").err == less.err


@pytest.mark.whole
def test_a_course_file_says_what_grade_tells_unless_the_command_does(headcheck: Command) -> None:
    written(ada=WRONG)
    Path("exam.toml").write_text('[feedback]\nlevel = "message"\nhidden = ["values"]\n')
    ran = headcheck("grade", "ada.py", "--course", "exam.toml")
    assert "hidden check" in ran.out and "expected" not in ran.out
    ran = headcheck("grade", "ada.py", "--course", "exam.toml", "--feedback", "full", "--verbose")
    assert "hidden check" not in ran.out and "expected" in ran.out


def test_a_definition_is_picked_after_a_colon(headcheck: Command) -> None:
    written(ada=RIGHT + WRONG.replace("def simplified_attention", "def attempt"))
    picked = headcheck("grade", "ada.py:attempt", "--exercise", "simplified_attention")
    assert picked.code == 1 and "(attempt)" in picked.out.replace("simplified_attention", "")
    missing = headcheck("grade", "ada.py:atempt")
    assert missing.code == 1
    assert "there is no `atempt`; did you mean `attempt`? found in line" in missing.out


def test_limits_are_options(headcheck: Command) -> None:
    written(ada=RIGHT.replace("return", "while True: x = x + 0\n    return"))
    limits = ("--call-seconds", "0.5", "--seconds", "60", "--cpu-seconds", "9", "--memory", "512")
    ran = headcheck("check", "ada.py", *limits)
    assert ran.code == 1
    assert "took more than 0.5 s for one call: is there an endless loop?" in ran.out


# ------------------------------------------------------------------- what is not possible


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nobody.py"], "nobody.py: no such file or folder"),
        (["empty"], "empty: no submissions in this folder; they are .ipynb and .py files"),
        (["notes.txt"], "notes.txt: a submission is a .ipynb or a .py file"),
        (["ada.py", "--exercise", "causal_atention"], "did you mean causal_attention?"),
        (["ada.py", "--exercise", "zzz"], "no exercise 'zzz'; see `headcheck list`"),
        (["ada.py", "--device", "toaster"], "toaster: not a device; there are cpu, cuda"),
        (["ada.py", "--device", "cuda:99"], "cuda:99: needs "),
        (["ada.py", "--out", "notes.txt"], "notes.txt: cannot be written: File exists"),
        (
            ["ada.py", "--out", "notes.txt/reports"],
            "notes.txt/reports: cannot be written: Not a dir",
        ),
        ([300 * "a" + ".py"], "File name too long"),
    ],
)
def test_ungradable_input_ends_with_2_and_one_line(
    headcheck: Command, arguments: list[str], message: str
) -> None:
    written(ada=RIGHT)
    Path("empty").mkdir()
    Path("notes.txt").touch()
    assert message in one_line(headcheck("grade", *arguments))


@pytest.mark.parametrize(
    "arguments",
    [
        ["grade"],
        ["nonsense"],
        ["grade", "ada.py", "--format", "yaml"],
        ["grade", "ada.py", "--no-such-option"],
        ["grade", "ada.py", "--seed", "first"],
        ["grade", "ada.py", "--memory", "-1"],
        ["grade", "ada.py", "--memory", "0"],
        ["grade", "ada.py", "--cpu-seconds", "0"],
        ["grade", "ada.py", "--call-seconds", "0"],
        ["grade", "ada.py", "--seconds", "-1"],
        ["start", "causal_attention", "ada.py"],
        ["show"],
    ],
    ids=" ".join,
)
def test_usage_error_ends_with_2_and_the_usage(headcheck: Command, arguments: list[str]) -> None:
    written(ada=RIGHT)
    ran = headcheck(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("Usage: ")


def test_internal_error_is_one_line(headcheck: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("three\nlines\nlong")

    monkeypatch.setattr(run, "grade_paths", broken)
    ran = headcheck("grade", "ada.py")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.count("\n") == 1
    assert "an internal error of headcheck" in ran.err
    assert "ZeroDivisionError: three lines long (test_cli.py:" in ran.err


def test_an_interrupt_ends_with_2(headcheck: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "grade_paths", interrupted)
    ran = headcheck("grade", "ada.py")
    assert ran.code == 2
    assert ran.err.strip() == "headcheck: interrupted"


# ----------------------------------------------------------------------- as a process


@pytest.mark.whole
def test_the_module_runs_in_a_terminal_that_knows_only_ascii(tmp_path: Path) -> None:
    (tmp_path / "Ξένια.py").write_text(WRONG)
    grade = ("-m", "headcheck", "grade", "Ξένια.py")
    ran = run_python(*grade, folder=tmp_path, PYTHONIOENCODING="ascii")
    assert (ran.returncode, ran.stderr) == (1, "")
    assert "simplified_attention" in ran.stdout and ran.stdout.isascii()
    ran = run_python(*grade, "--format", "json", folder=tmp_path, PYTHONIOENCODING="ascii")
    assert from_json(ran.stdout).submissions[0].student == "Ξένια"


def test_file_names_that_are_no_text_are_graded(headcheck: Command, tmp_path: Path) -> None:
    Path(str(tmp_path).encode().decode() + "/\udcff.py").write_text(RIGHT)
    assert headcheck("grade", ".").code == 0
    ran = headcheck("grade", ".", "--format", "json", "--out", "reports")
    assert ran.code == 0
    assert from_json(ran.out).submissions[0].file == "\\udcff.py"


def test_thorough_asks_what_a_usual_check_leaves_out(headcheck: Command) -> None:
    Path("right.py").write_text(RIGHT)
    said = ("check", "right.py", "--format", "json", "--trusted")
    usual, thorough = (
        from_json(headcheck(*said, *more).out.encode()).submissions[0]
        for more in ((), ("--thorough",))
    )
    asked = [[each.name for each in record.properties] for record in (usual, thorough)]
    assert set(asked[0]) < set(asked[1])
    assert (usual.only_thorough, thorough.only_thorough) == (len(asked[1]) - len(asked[0]), 0)
    assert usual.score == thorough.score == usual.max_score == thorough.max_score
    told = f"{usual.only_thorough} more checks are made with --thorough."
    assert told in headcheck("check", "right.py", "--trusted").out


def test_feedback_levels_apply_to_every_output(headcheck: Command) -> None:
    written(bob=WRONG)
    exam = '[feedback]\nlevel = "message"\nhidden = ["it_equals_the_equation"]\n'
    Path("exam.toml").write_text(exam)
    ran = headcheck("grade", "bob.py", "--format", "json", "--out", "told", "--course", "exam.toml")
    assert ran.code == 1
    for text in (ran.out, *(path.read_text() for path in Path("told").iterdir())):
        assert "seed=" not in text and "it_equals_the_equation" not in text
    [record] = from_json(ran.out).submissions
    assert (record.hidden, record.seconds, record.status) == (1, 0.0, "failed")
    shown = headcheck("check", "bob.py", "--feedback", "name")
    assert shown.code == 1 and "\n    failed\n" in shown.out and "expected" not in shown.out


@pytest.mark.whole
def test_html_is_one_page(headcheck: Command) -> None:
    written(ada=RIGHT)
    ran = headcheck("grade", "ada.py", "--format", "html")
    assert ran.code == 0
    assert ran.out.lstrip().lower().startswith("<!doctype html>")
    assert "ada.py" in ran.out


@pytest.mark.whole
def test_points_change_what_a_group_is_worth(headcheck: Command) -> None:
    written(ada=RIGHT)
    Path("course.toml").write_text("[points.simplified_attention]\nvalues = 1000\n")
    ran = headcheck("grade", "ada.py", "--course", "course.toml", "--format", "json")
    [record] = from_json(ran.out).submissions
    assert record.score == record.max_score == pytest.approx(1042)
