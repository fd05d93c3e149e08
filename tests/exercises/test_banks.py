"""The judge is judged: every right answer keeps every claim, every wrong one breaks one.

Answers run in this process, without a sandbox: they are the project's own. Nothing is shrunk;
the first claim that breaks on any case settles it. Right ones are asked everything at once, as
students' are. An ordinary run judges a sample and what a change touches, `--whole` all of them, as
`headcheck audit` does. The cases are those that students are graded on; with `-m deep` there are
others, for a verdict must not be luck.
"""

import functools
import gc
import re
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from headcheck.exercises import ALL, BY_SLUG, Exercise
from headcheck.exercises.answers import Answer, find_answer, list_answers
from headcheck.grader.audit.matrix import check_answer, load_answers
from headcheck.properties.cases.case_set import generate_case_set
from headcheck.properties.harness.harness import Harness
from headcheck.properties.property import Property
from headcheck.properties.terms.case import Case
from tests.changes import find_changed_claims, list_touched_answers, thin_out
from tests.submissions import accuse, load

# A warning of torch about what an answer does is no exception anywhere else, and so it must not
# be what a wrong answer dies of.
pytestmark = pytest.mark.filterwarnings("ignore")

MOST_TOUCHED = 12
"""so many answers that a change touches are judged in an ordinary run"""
LARGE = "gpt2_size/"
"""an ordinary run judges no answer to it: each takes half a minute"""
SMALL = [exercise for exercise in ALL if f"{exercise.slug}/" != LARGE]
RIGHT_STEP, WRONG_STEP = 14, 24
"""one of so many answers is judged in every run"""
SOME = SMALL[::17]
"""those whose solutions and answers are; the audit takes others"""
DOING_NOTHING = ("stub", "zeros", "identity", "returns_values")
OTHER_SEEDS = (1, 2, 3)


def answers(kind: str) -> list[str]:
    """All answers of a kind, as `slug/name`."""
    return [f"{e.slug}/{answer.name}" for e in ALL for answer in list_answers(e, kind)]


def sample(kind: str) -> list[str]:
    """Of some exercises the first answer of a kind and every so-manieth; some that changed."""
    step = RIGHT_STEP if kind == "right" else WRONG_STEP
    some = [f"{e.slug}/{answer.name}" for e in SOME for answer in list_answers(e, kind)[::step]]
    touched = thin_out(list_touched_answers(), MOST_TOUCHED)
    chosen = {label for label in (*some, *touched) if not label.startswith(LARGE)}
    return [label for label in answers(kind) if label in chosen]


def trivial() -> list[str]:
    """Answers that do nothing."""
    return [answer for answer in answers("wrong") if answer.split("/")[1] in DOING_NOTHING]


def answer_of(label: str) -> Answer:
    slug, name = label.split("/")
    return find_answer(BY_SLUG[slug], name)


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
                cases = claim.select_cases(self.bench.contract, self.cases)[part]
                if told := accuse(claim, self.bench, cases):
                    return told
        return ""


def examined(answer: Answer, seed: int = 0) -> Examination:
    gc.collect()  # the benches before this one hang together in circles, with all their tensors
    gc.freeze()
    exercise = BY_SLUG[answer.exercise]
    harness = load(answer, exercise)
    return Examination(exercise, harness, cases(exercise.slug, seed))


def must_be_accepted(answer: Answer, seed: int = 0) -> None:
    result = check_answer(answer, BY_SLUG[answer.exercise], seed)
    assert (result.broken, result.not_tried) == ((), ())
    assert set(result.notes) == noted(answer.source)


def noted(source: str) -> set[str]:
    """The notes that an answer announces in its first line: `… (noted: renamed_parameters)`."""
    first = source.partition("\n")[0]
    return set(re.findall(r"\(noted: (\w+)\)", first))


def must_be_refused(answer: Answer, seed: int = 0) -> None:
    found = examined(answer, seed).broken(BY_SLUG[answer.exercise].properties)
    assert found, "no claim sees its fault"


def needed_by(claim: Property) -> set[Property]:
    """The claim, and what must hold before it is tried."""
    return {claim}.union(*(needed_by(required) for required in claim.requires))


@pytest.mark.sampled("exercise", ALL, SOME, ids=lambda exercise: exercise.slug)
def test_solution_satisfies_every_property(exercise: Exercise) -> None:
    must_be_accepted(load_answers(exercise)[0])


def test_a_claim_that_changed_holds_of_every_solution() -> None:
    """Of all claims in the same module: a change cannot be followed any nearer."""
    changed = find_changed_claims()
    for exercise in SMALL:
        if asked := [each for each in exercise.properties if each.claim in changed]:
            told = examined(load_answers(exercise)[0]).broken(asked)
            assert not told, f"{exercise.slug}: {told}"


@pytest.mark.sampled("answer", answers("right"), sample("right"))
def test_right_answer_satisfies_every_property(answer: str) -> None:
    must_be_accepted(answer_of(answer))


@pytest.mark.sampled("answer", answers("wrong"), sample("wrong"))
def test_wrong_answer_violates_a_property(answer: str) -> None:
    must_be_refused(answer_of(answer))


@pytest.mark.sampled("answer", trivial(), trivial()[::6])
def test_trivial_answer_fails_the_prerequisites(answer: str) -> None:
    trivial = answer_of(answer)
    exercise = BY_SLUG[trivial.exercise]
    needed = needed_by(exercise.prerequisite)
    gate = [claim for claim in exercise.properties if claim in needed]
    assert examined(trivial).broken(gate), "the gate is open to it"


@pytest.mark.deep
@pytest.mark.parametrize("seed", OTHER_SEEDS)
@pytest.mark.parametrize("answer", answers("right"))
def test_right_answer_satisfies_every_property_on_other_cases(answer: str, seed: int) -> None:
    must_be_accepted(answer_of(answer), seed)


@pytest.mark.deep
@pytest.mark.parametrize("seed", OTHER_SEEDS)
@pytest.mark.parametrize("answer", answers("wrong"))
def test_wrong_answer_violates_a_property_on_other_cases(answer: str, seed: int) -> None:
    must_be_refused(answer_of(answer), seed)
