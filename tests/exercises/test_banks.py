"""The judge is judged: every right answer keeps every claim, every wrong one breaks one.

Answers run in this process, without a sandbox: they are the project's own. Nothing is shrunk;
the first claim that breaks on any case settles it. The cases are those that students are graded
on; with `-m deep` there are others, for a verdict must not be luck.
"""

import functools
import gc
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType

import pytest

from exercises import ALL, BY_SLUG, Exercise
from exercises.answers import find_answer, list_answers
from grader.sandbox.grader_side.subject import make_subject
from properties.case import Case
from properties.cases.case_set import generate_case_set
from properties.harness.harness import Harness
from properties.property import Property
from properties.violation import SubmissionFailed, Violation

# A warning of torch about what an answer does is no exception anywhere else, and so it must not
# be what a wrong answer dies of.
pytestmark = pytest.mark.filterwarnings("ignore")

DOING_NOTHING = ("stub", "zeros", "identity", "returns_values")
OTHER_SEEDS = (1, 2, 3)


def answers(kind: str) -> list[str]:
    """All answers of a kind, as `slug/name`."""
    return [f"{e.slug}/{answer.name}" for e in ALL for answer in list_answers(e, kind)]


def source_of(answer: str) -> tuple[Exercise, str]:
    slug, name = answer.split("/")
    return BY_SLUG[slug], find_answer(BY_SLUG[slug], name).source


def loaded(source: str) -> ModuleType:
    """A module of its own, under a name that the answer's classes can be found by."""
    module = ModuleType("submission")
    sys.modules["submission"] = module
    exec(compile(source, "submission.py", "exec"), vars(module))
    return module


@functools.cache
def cases(slug: str, seed: int) -> tuple[Case, ...]:
    return generate_case_set(BY_SLUG[slug].contract, BY_SLUG[slug].cases, seed)


@dataclass(frozen=True)
class Examination:
    """One answer, about to be judged on one bank of cases."""

    exercise: Exercise
    bench: Harness
    cases: tuple[Case, ...]

    def broken(self, claims: Sequence[Property]) -> str:
        """The first of these claims found not to hold, and why; nothing if all hold.

        Every claim is tried on its largest case before any is tried on the others: most faults
        show there, and one that only a late claim sees is found in a third of the time.
        """
        for part in (slice(-1, None), slice(None, -1)):
            for claim in claims:
                for case in claim.select_cases(self.bench.contract, self.cases)[part]:
                    try:
                        claim.check(self.bench.get_context(case))
                    except (Violation, SubmissionFailed) as reason:
                        return f"{claim.name} on {case}: {reason}"
        return ""


def examined(exercise: Exercise, source: str, seed: int = 0) -> Examination:
    gc.collect()  # the benches before this one hang together in circles, with all their tensors
    harness = Harness(make_subject(vars(loaded(source))), exercise.contract)
    return Examination(exercise, harness, cases(exercise.slug, seed))


def must_be_accepted(exercise: Exercise, source: str, seed: int = 0) -> None:
    examination = examined(exercise, source, seed)
    assert examination.broken(exercise.properties) == ""
    assert {kind for kind, _ in examination.bench.notes} == noted(source)


def noted(source: str) -> set[str]:
    """The notes that an answer announces in its first line: `… (noted: renamed_parameters)`."""
    first = source.partition("\n")[0]
    return set(re.findall(r"\(noted: (\w+)\)", first))


def must_be_refused(exercise: Exercise, source: str, seed: int = 0) -> None:
    found = examined(exercise, source, seed).broken(exercise.properties)
    assert found, "no claim sees its fault"


def needed_by(claim: Property) -> set[Property]:
    """The claim, and what must hold before it is tried."""
    return {claim}.union(*(needed_by(required) for required in claim.requires))


@pytest.mark.parametrize("slug", sorted(BY_SLUG))
def test_solution_satisfies_every_property(slug: str) -> None:
    must_be_accepted(BY_SLUG[slug], BY_SLUG[slug].solution)


@pytest.mark.parametrize("answer", answers("right"))
def test_right_answer_satisfies_every_property(answer: str) -> None:
    must_be_accepted(*source_of(answer))


@pytest.mark.parametrize("answer", answers("wrong"))
def test_wrong_answer_violates_a_property(answer: str) -> None:
    must_be_refused(*source_of(answer))


@pytest.mark.parametrize(
    "answer", [a for a in answers("wrong") if a.split("/")[1] in DOING_NOTHING]
)
def test_trivial_answer_fails_the_prerequisites(answer: str) -> None:
    exercise, source = source_of(answer)
    needed = needed_by(exercise.prerequisite)
    gate = [claim for claim in exercise.properties if claim in needed]
    assert examined(exercise, source).broken(gate), "the gate is open to it"


@pytest.mark.deep
@pytest.mark.parametrize("seed", OTHER_SEEDS)
@pytest.mark.parametrize("answer", answers("right"))
def test_right_answer_satisfies_every_property_on_other_cases(answer: str, seed: int) -> None:
    must_be_accepted(*source_of(answer), seed)


@pytest.mark.deep
@pytest.mark.parametrize("seed", OTHER_SEEDS)
@pytest.mark.parametrize("answer", answers("wrong"))
def test_wrong_answer_violates_a_property_on_other_cases(answer: str, seed: int) -> None:
    must_be_refused(*source_of(answer), seed)
