"""The judge is judged: every right answer keeps every claim, every wrong one breaks one.

Answers run in this process, without a sandbox: they are the project's own. Nothing is shrunk;
the first claim that breaks on any case settles it.
"""

import functools
import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import pytest

from exercises import ALL, BY_SLUG, Exercise
from grader.subject import of_namespace
from properties.case import Case
from properties.property import Property
from properties.strategies import bank
from properties.trial import Bench
from properties.violation import SubmissionFailed, Violation

# A warning of torch about what an answer does is no exception anywhere else, and so it must not
# be what a wrong answer dies of.
pytestmark = pytest.mark.filterwarnings("ignore")

DOING_NOTHING = ("stub", "zeros", "identity", "returns_values")


def answers(kind: str) -> list[str]:
    """All answers of a kind, as `slug/name`."""
    return [
        f"{exercise.slug}/{path.stem}"
        for exercise in ALL
        for path in sorted((exercise.folder / "answers" / kind).glob("*.py"))
    ]


def path_of(answer: str, kind: str) -> tuple[Exercise, Path]:
    slug, name = answer.split("/")
    return BY_SLUG[slug], BY_SLUG[slug].folder / "answers" / kind / f"{name}.py"


def loaded(path: Path) -> ModuleType:
    """A module of its own, under a name that the answer's classes can be found by."""
    spec = importlib.util.spec_from_file_location("submission", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["submission"] = module
    spec.loader.exec_module(module)
    return module


@functools.cache
def cases(slug: str) -> tuple[Case, ...]:
    return bank(BY_SLUG[slug].contract, BY_SLUG[slug].cases)


def examined(exercise: Exercise, path: Path) -> Bench:
    return Bench(of_namespace(vars(loaded(path))), exercise.contract)


def broken(bench: Bench, exercise: Exercise, claims: Iterable[Property]) -> str:
    """The first of these claims that does not hold, and why; nothing if all hold."""
    for claim in claims:
        for case in claim.choose(bench.contract, cases(exercise.slug)):
            try:
                claim.judge(bench.trial(case))
            except (Violation, SubmissionFailed) as reason:
                return f"{claim.name} on {case}: {reason}"
    return ""


def needed_by(claim: Property) -> set[Property]:
    """The claim, and what must hold before it is tried."""
    return {claim}.union(*(needed_by(required) for required in claim.requires))


@pytest.mark.parametrize("slug", sorted(BY_SLUG))
def test_the_solution_keeps_every_claim(slug: str) -> None:
    exercise = BY_SLUG[slug]
    bench = examined(exercise, exercise.folder / "solution.py")
    assert broken(bench, exercise, exercise.properties) == ""
    assert bench.notes == {}


@pytest.mark.parametrize("answer", answers("right"))
def test_a_right_answer_keeps_every_claim(answer: str) -> None:
    exercise, path = path_of(answer, "right")
    bench = examined(exercise, path)
    assert broken(bench, exercise, exercise.properties) == ""
    assert bench.notes == {}


@pytest.mark.parametrize("answer", answers("wrong"))
def test_a_wrong_answer_breaks_a_claim(answer: str) -> None:
    exercise, path = path_of(answer, "wrong")
    found = broken(examined(exercise, path), exercise, exercise.properties)
    assert found, "no claim sees its fault"


@pytest.mark.parametrize(
    "answer", [a for a in answers("wrong") if a.split("/")[1] in DOING_NOTHING]
)
def test_doing_nothing_does_not_pass_the_gate(answer: str) -> None:
    exercise, path = path_of(answer, "wrong")
    needed = needed_by(exercise.gate)
    gate = [claim for claim in exercise.properties if claim in needed]
    assert broken(examined(exercise, path), exercise, gate), "the gate is open to it"
