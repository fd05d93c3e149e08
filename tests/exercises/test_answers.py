"""The answer bank: files and edits of files, and what is said of a bank that cannot be read."""

from dataclasses import replace
from pathlib import Path

import pytest

from headcheck.exercises import ALL, BY_SLUG, Exercise
from headcheck.exercises.answers import (
    AnswerKind,
    AnswerNotFound,
    BadBank,
    find_answer,
    list_answers,
    load_bank,
    write_answer,
)

PLAIN = '"""Plain."""\n\n\ndef linear(x, weight, bias):\n    return x @ weight.T + bias\n'
FAULT = """\
[{name}]
base = "{base}"
why = "It is wrong. (named: no_scale)"
edits = [{edits}]
"""
EDIT = "{replace = ' + bias', by = ''}"


def make_fault(name: str = "unbiased", base: str = "right/plain.py", edits: str = EDIT) -> str:
    return FAULT.format(name=name, base=base, edits=edits)


@pytest.fixture
def exercise(tmp_path: Path) -> Exercise:
    """An exercise with one right answer, one wrong answer in a file, and nothing else."""
    for kind, name in (("right", "plain"), ("wrong", "stub")):
        folder = tmp_path / "answers" / kind
        folder.mkdir(parents=True)
        (folder / f"{name}.py").write_text(PLAIN)
    (tmp_path / "solution.py").write_text("# Without a docstring.\nbias = 1\n")
    return replace(BY_SLUG["linear_layer"], folder=tmp_path)


def write_faults(exercise: Exercise, *faults: str) -> None:
    (exercise.folder / "answers" / "faults.toml").write_text("\n".join(faults))


def read_complaint(exercise: Exercise, *faults: str) -> str:
    """What is said of a bank with these faults, in one line that names the file."""
    write_faults(exercise, *faults)
    with pytest.raises(BadBank) as caught:
        load_bank(exercise)
    assert "\n" not in str(caught.value)
    place = str(exercise.folder / "answers")
    assert place in str(caught.value)
    return str(caught.value).replace(place, "").removeprefix("/faults.toml: ")


def test_fault_is_its_base_with_its_own_docstring_and_edits(exercise: Exercise) -> None:
    write_faults(exercise, make_fault())
    found = find_answer(exercise, "unbiased")
    assert (found.exercise, found.kind) == ("linear_layer", AnswerKind.WRONG)
    assert found.description == "It is wrong. (named: no_scale)"
    assert found.source == PLAIN.replace("Plain.", found.description).replace(" + bias", "")


def test_count_allows_several_occurrences(exercise: Exercise) -> None:
    write_faults(exercise, make_fault(edits="{replace = 'bias', by = 'b', count = 2}"))
    assert "b):\n    return x @ weight.T + b\n" in find_answer(exercise, "unbiased").source


def test_edits_are_made_in_order_and_on_other_faults(exercise: Exercise) -> None:
    two = "{replace = '.T + bias', by = '.T'}, {replace = '.T', by = '.mT'}"
    once_more = make_fault("of_it", "wrong/unbiased.py", "{replace = '.mT', by = ''}")
    write_faults(exercise, make_fault(edits=two), once_more)
    assert "return x @ weight.mT\n" in find_answer(exercise, "unbiased").source
    assert "return x @ weight\n" in find_answer(exercise, "of_it").source


def test_solution_may_be_a_base(exercise: Exercise) -> None:
    write_faults(exercise, make_fault(base="solution.py", edits="{replace = '1', by = '2'}"))
    made = find_answer(exercise, "unbiased").source
    assert made == '"""It is wrong. (named: no_scale)"""\n\n# Without a docstring.\nbias = 2\n'


def test_right_answers_come_before_wrong_ones_each_by_name(exercise: Exercise) -> None:
    write_faults(exercise, make_fault())
    assert [answer.name for answer in load_bank(exercise)] == ["plain", "stub", "unbiased"]
    assert [answer.name for answer in list_answers(exercise, "wrong")] == ["stub", "unbiased"]
    assert [answer.is_wrong for answer in load_bank(exercise)] == [False, True, True]


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ("{replace = 'biases', by = ''}", "looks for 'biases' 1 times, and finds it 0 times"),
        ("{replace = 'bias', by = ''}", "looks for 'bias' 1 times, and finds it 2 times"),
        (
            "{replace = 'bias', by = '', count = 3}",
            "looks for 'bias' 3 times, and finds it 2 times",
        ),
        ("{replace = 'Plain', by = ''}", "looks for 'Plain' 1 times, and finds it 0 times"),
        ("{replace = '''a\nb''', by = ''}", r"looks for 'a\nb' 1 times, and finds it 0 times"),
    ],
)
def test_wrong_number_of_occurrences_is_reported(exercise: Exercise, edit: str, said: str) -> None:
    assert read_complaint(exercise, make_fault(edits=edit)) == f"[unbiased] {said}"


@pytest.mark.parametrize(
    "edit",
    ["{replace = 'bias'}", "{replace = '', by = 'x'}", "{replace = 'bias', with = 'x'}", "'bias'"],
)
def test_malformed_edit_is_reported(exercise: Exercise, edit: str) -> None:
    said = "an edit must have `replace` and `by`, and may have a `count`"
    assert read_complaint(exercise, make_fault(edits=edit)) == f"[unbiased]: {said}"


def test_malformed_toml_is_reported(exercise: Exercise) -> None:
    assert ": is not TOML: " in read_complaint(exercise, "[unbiased")
    assert "Cannot declare" in read_complaint(exercise, make_fault(), make_fault())


@pytest.mark.parametrize("lost", ["base", "why", "edits"])
def test_incomplete_fault_is_reported(exercise: Exercise, lost: str) -> None:
    kept = [line for line in make_fault().splitlines() if not line.startswith(lost)]
    said = "[unbiased] must have a base, a why, edits, and nothing else"
    assert read_complaint(exercise, "\n".join(kept)) == said
    assert read_complaint(exercise, make_fault() + "more = 1\n") == said


def test_missing_base_is_reported(exercise: Exercise) -> None:
    said = "[unbiased] has no base: there is no right/plane.py"
    assert read_complaint(exercise, make_fault(base="right/plane.py")) == said


def test_circular_fault_is_reported(exercise: Exercise) -> None:
    one, other = make_fault("one", "wrong/other.py"), make_fault("other", "wrong/one.py")
    said = "[one] is made from itself: wrong/one.py from wrong/other.py from wrong/one.py"
    assert read_complaint(exercise, one, other) == said


@pytest.mark.parametrize("name", ["plain", "stub"])
def test_duplicate_name_is_reported(exercise: Exercise, name: str) -> None:
    assert (
        read_complaint(exercise, make_fault(name))
        == f": two answers are called {name!r}; rename one"
    )


def test_nearest_name_is_suggested(exercise: Exercise) -> None:
    with pytest.raises(AnswerNotFound, match="is called 'plane'; did you mean plain"):
        find_answer(exercise, "plane")
    with pytest.raises(AnswerNotFound, match="see `headcheck bank show linear_layer`"):
        find_answer(exercise, "xyz")


def test_write_answer_writes_the_source(exercise: Exercise, tmp_path: Path) -> None:
    path = write_answer(find_answer(exercise, "plain"), tmp_path)
    assert (path.name, path.read_bytes()) == ("plain.py", PLAIN.encode())


@pytest.mark.parametrize("exercise", ALL, ids=lambda exercise: exercise.slug)
def test_every_bank_can_be_read(exercise: Exercise) -> None:
    assert {answer.kind for answer in load_bank(exercise)} == {AnswerKind.RIGHT, AnswerKind.WRONG}
