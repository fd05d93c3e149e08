"""Mutants: small changes of solutions, each other code, each with a name that stays."""

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from exercises import ALL, BY_SLUG, Exercise
from exercises.mutants import equivalents, mutants

every_exercise = pytest.mark.parametrize("exercise", ALL, ids=lambda e: e.slug)


def mutants_of(tmp_path: Path, source: str) -> dict[str, str]:
    (tmp_path / "solution.py").write_text(source, encoding="utf-8")
    made = mutants(replace(BY_SLUG["linear_layer"], folder=tmp_path))
    return {mutant.name: mutant.source for mutant in made}


@every_exercise
def test_every_mutant_is_python_of_its_own(exercise: Exercise) -> None:
    made = mutants(exercise)
    assert len(made) >= 5
    assert len({mutant.source for mutant in made}) == len(made)
    assert len({mutant.name for mutant in made}) == len(made)
    for mutant in made:
        ast.parse(mutant.source)


@every_exercise
def test_every_equivalent_is_a_mutant_and_gives_its_reason(exercise: Exercise) -> None:
    known = equivalents(exercise)
    assert set(known) <= {mutant.name for mutant in mutants(exercise)}
    assert all(len(reason) > 10 for reason in known.values())


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


def test_what_computes_nothing_is_left_alone(tmp_path: Path) -> None:
    source = "import torch\nX = 3\n\ndef f(x: int = 4) -> float:\n    return x.transpose(1, 1)\n"
    assert set(mutants_of(tmp_path, source)) == {
        "f: x.transpose(1, 1) -> x",
        "f: 1 -> 2",
        "f: 1 -> 0",
        "f: 1 -> 2 (2)",
        "f: 1 -> 0 (2)",
    }
