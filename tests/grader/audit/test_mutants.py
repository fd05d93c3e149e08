"""Mutants: small changes of solutions, each other code, each with a name that stays."""

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest

from headcheck.exercises import ALL, BY_SLUG, Exercise
from headcheck.grader.audit.mutants import generate_mutants, load_equivalents

every_exercise = pytest.mark.sampled("exercise", ALL, ALL[::3], ids=lambda e: e.slug)


def solved(tmp_path: Path, source: str) -> Exercise:
    (tmp_path / "solution.py").write_text(source, encoding="utf-8")
    return replace(BY_SLUG["linear_layer"], folder=tmp_path)


def mutants_of(tmp_path: Path, source: str) -> dict[str, str]:
    made = generate_mutants(solved(tmp_path, f"# BEGIN SOLUTION\n{source}# END SOLUTION\n"))
    return {mutant.name: mutant.source for mutant in made}


@every_exercise
def test_every_mutant_is_valid_and_distinct(exercise: Exercise) -> None:
    made = generate_mutants(exercise)
    assert len(made) >= 5
    assert len({mutant.source for mutant in made}) == len(made)
    assert len({mutant.name for mutant in made}) == len(made)
    for mutant in made:
        ast.parse(mutant.source)


@every_exercise
def test_every_equivalent_is_a_mutant_and_gives_its_reason(exercise: Exercise) -> None:
    known = load_equivalents(exercise)
    assert set(known) <= {mutant.name for mutant in generate_mutants(exercise)}
    assert all(len(reason) > 10 for reason in known.values())


ENTRY = '[[equivalent]]\nmutants = ["f: 2 -> 3", "f: 2 -> 1"]\nreason = "nobody calls it"\n'


def listed(tmp_path: Path, text: str) -> dict[str, str]:
    """The equivalents that a file with this text holds, beside a solution that returns 2."""
    (tmp_path / "equivalents.toml").write_text(text, encoding="utf-8")
    source = "# BEGIN SOLUTION\ndef f():\n    return 2\n# END SOLUTION\n"
    return load_equivalents(solved(tmp_path, source))


def test_one_reason_can_cover_several_mutants(tmp_path: Path) -> None:
    assert listed(tmp_path, ENTRY) == dict.fromkeys(("f: 2 -> 3", "f: 2 -> 1"), "nobody calls it")


def test_without_a_list_no_mutant_is_equivalent(tmp_path: Path) -> None:
    assert load_equivalents(solved(tmp_path, "")) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ENTRY.replace("3", "4"), "no mutant is called 'f: 2 -> 4'. Was the solution changed?"),
        (ENTRY + ENTRY, "'f: 2 -> 3' is listed twice. Keep one of its reasons."),
        ("mutants = [", "is not TOML: "),
        ("", "it must hold [[equivalent]] entries and nothing else."),
        ("[equivalent]", "it must hold [[equivalent]] entries and nothing else."),
        (ENTRY + "[other]", "it must hold [[equivalent]] entries and nothing else."),
        ('equivalent = ["f: 2 -> 3"]', "This one is 'f: 2 -> 3'."),
        (ENTRY.replace("reason", "because"), "and a `reason`, and nothing else."),
        (ENTRY.replace("nobody calls it", " "), "and a `reason`, and nothing else."),
        (ENTRY.replace('["f: 2 -> 3", "f: 2 -> 1"]', "[]"), "must have `mutants`"),
        (ENTRY.replace('"f: 2 -> 1"', "1"), "must have `mutants`"),
        (ENTRY + "since = 3\n", "and nothing else. This one is"),
    ],
)
def test_invalid_list_of_equivalents_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as raised:
        listed(tmp_path, text)
    assert str(raised.value).startswith(f"{tmp_path / 'equivalents.toml'}")


def test_operators_numbers_and_names_are_changed(tmp_path: Path) -> None:
    made = mutants_of(tmp_path, "def f(queries, keys):\n    return queries @ keys.mT / 8 ** 0.5\n")
    assert set(made) >= {
        "f: queries @ keys.mT / 8 ** 0.5 -> queries @ keys.mT * 8 ** 0.5",
        "f: queries @ keys.mT / 8 ** 0.5 -> queries @ keys.mT",
        "f: queries @ keys.mT -> keys.mT @ queries",
        "f: queries @ keys.mT -> queries * keys.mT",
        "f: queries -> keys",
        "f: keys -> queries",
        "f: 8 -> 9",
        "f: 8 -> 7",
        "f: 0.5 -> 1.0",
        "f: 8 ** 0.5 -> 8",
    }


def test_calls_and_lines_are_left_out(tmp_path: Path) -> None:
    made = mutants_of(
        tmp_path,
        "class A:\n"
        "    def f(self, x):\n"
        '        """Says."""\n'
        "        x = x.masked_fill(x > 0, float('-inf'))\n"
        "        return self.out(torch.softmax(x, dim=-1))\n",
    )
    assert set(made) >= {
        "f: without x = x.masked_fill(x > 0, float('-inf'))",
        "f: x.masked_fill(x > 0, float('-inf')) -> x",
        "f: x > 0 -> x >= 0",
        "f: '-inf' -> 'inf'",
        "f: self.out(torch.softmax(x, dim=-1)) -> torch.softmax(x, dim=-1)",
        "f: torch.softmax(x, dim=-1) -> x",
        "f: torch.softmax(x, dim=-1) -> torch.softmax(x)",
        "f: -1 -> 1",
    }
    assert not any("Says" in source for source in made.values())


def test_code_that_computes_nothing_is_not_mutated(tmp_path: Path) -> None:
    source = "import torch\nX = 3\n\ndef f(x: int = 4) -> float:\n    return x.transpose(1, 1)\n"
    assert set(mutants_of(tmp_path, source)) == {
        "f: x.transpose(1, 1) -> x",
        "f: 1 -> 2",
        "f: 1 -> 0",
        "f: 1 -> 2 (2)",
        "f: 1 -> 0 (2)",
    }


def test_given_code_is_not_mutated(tmp_path: Path) -> None:
    source = (
        "def given():\n    return 1\n\n"
        "def f():\n    # BEGIN SOLUTION\n    return 2\n    # END SOLUTION\n\n"
        "def also_given():\n    return 3\n"
    )
    made = generate_mutants(solved(tmp_path, source))
    assert [mutant.name for mutant in made] == ["f: 2 -> 3", "f: 2 -> 1"]


def test_conditions_are_changed(tmp_path: Path) -> None:
    made = mutants_of(tmp_path, "def f(x, y):\n    return x in y and y\n")
    assert set(made) >= {"f: x in y and y -> x in y or y", "f: x in y -> x not in y"}
