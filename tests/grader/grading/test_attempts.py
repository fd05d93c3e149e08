"""A definition is judged in attempts: which follow, which counts, and what is told of them."""

from dataclasses import replace
from pathlib import Path

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.exercises.answers import find_answer
from headcheck.grader.grading.attempts import (
    Attempt,
    Judgement,
    Way,
    ask,
    choose_better,
    judge,
    repeat_alone,
    silence,
)
from headcheck.grader.grading.definition_grader import DefinitionGrader, LiveJudgement
from headcheck.grader.grading.events import Event, PropertyJudged, SearchAdvanced, TargetStarted
from headcheck.grader.grading.grade import grade_file_or_raise
from headcheck.grader.grading.infer import Target
from headcheck.grader.grading.search_limit import SearchLimit
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.submission import find_submissions
from headcheck.grader.sandbox.grader_side.budget import Purpose
from headcheck.properties.families.purity import evaluation_is_repeatable
from headcheck.properties.families.values import it_equals_the_equation
from headcheck.properties.property import Verdict
from headcheck.properties.terms.depth import Depth
from headcheck.properties.violations.violation import Status, SubmissionFailed
from tests.grader.conftest import GradeText, SandboxDriver

EXERCISE = BY_SLUG["self_attention_v2"].at(Depth.USUAL)
TARGET = Target(EXERCISE, EXERCISE.contract.name)
ASKED = ask(TARGET)
DISTURBED = Judgement(
    attempt=ASKED,
    verdicts=(
        Verdict(evaluation_is_repeatable, Status.FAILED),
        Verdict(it_equals_the_equation, Status.PASSED),
    ),
)
UNSTARTED = Judgement(attempt=ASKED, failure=SubmissionFailed(Status.TIMED_OUT, "no time is left"))


# -------------------------------------------------------------------------- pure functions


def test_the_first_attempt_is_batched_unless_a_class_is_judged_in_its_own_terms() -> None:
    assert Attempt(TARGET, Way.BATCHED) == ASKED
    assert ask(replace(TARGET, contract=EXERCISE.contract)).way is Way.LIVE


def test_side_effects_are_followed_by_each_property_alone_and_only_once() -> None:
    alone = repeat_alone(DISTURBED)
    assert alone == replace(ASKED, way=Way.ALONE, held=frozenset({it_equals_the_equation}))
    assert repeat_alone(replace(DISTURBED, attempt=alone)) is None
    assert repeat_alone(replace(DISTURBED, verdicts=DISTURBED.verdicts[1:])) is None


def test_biases_are_silenced_in_a_whole_new_attempt_with_its_own_budget() -> None:
    alone = repeat_alone(DISTURBED)
    assert alone is not None
    silenced = silence(alone, ("query.bias",))
    assert silenced == replace(ASKED, silenced=("query.bias",), purpose=Purpose.SILENCED)


def test_a_later_attempt_counts_if_it_has_verdicts() -> None:
    later = replace(DISTURBED, verdicts=())
    assert choose_better(DISTURBED, later) is later
    assert choose_better(DISTURBED, UNSTARTED) is DISTURBED
    assert choose_better(UNSTARTED, DISTURBED) is DISTURBED


def test_the_loop_goes_on_from_the_best_result() -> None:
    seen: list[Judgement | None] = []

    def run(attempt: Attempt, before: Judgement | None) -> Judgement:
        seen.append(before)
        return UNSTARTED if attempt.silenced else replace(DISTURBED, attempt=attempt)

    def quiet(judged: Judgement) -> Attempt:
        return silence(judged.attempt, ("query.bias",))

    best = judge(ASKED, run, [repeat_alone, quiet, repeat_alone])
    assert best.attempt.way is Way.ALONE
    assert [None if each is None else each.attempt.way for each in seen] == [
        None,
        Way.BATCHED,
        Way.ALONE,
    ]


# ------------------------------------------------------------------------------ in a sandbox


def follow(
    sandbox: SandboxDriver, folder: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> tuple[list[Event], list[Attempt]]:
    """The events of grading an answer, and the attempts that were made."""
    events: list[Event] = []
    attempts: list[Attempt] = []
    run = DefinitionGrader.run

    def note(
        grader: DefinitionGrader, attempt: Attempt, before: LiveJudgement | None
    ) -> LiveJudgement:
        attempts.append(attempt)
        return run(grader, attempt, before)

    monkeypatch.setattr(DefinitionGrader, "run", note)
    path = folder / "ada.py"
    path.write_text(source, encoding="utf-8")
    [handed_in] = find_submissions([str(path)])
    settings = Settings(exercise=EXERCISE, search=SearchLimit(cases=1))
    grade_file_or_raise(sandbox.server, handed_in, settings, events.append)
    return events, attempts


def list_judged(events: list[Event]) -> list[str]:
    return [event.verdict.property.name for event in events if isinstance(event, PropertyJudged)]


@pytest.mark.parametrize(
    ("name", "ways", "biases"),
    [
        ("bias_always_on", [Way.BATCHED, Way.BATCHED], 3),
        ("draws_at_random", [Way.BATCHED, Way.ALONE], 0),
    ],
)
def test_each_property_is_announced_once_whatever_attempts_follow(
    sandbox: SandboxDriver,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    ways: list[Way],
    biases: int,
) -> None:
    source = RANDOM if name == "draws_at_random" else find_answer(EXERCISE, name).source
    events, attempts = follow(sandbox, tmp_path, monkeypatch, source)
    assert [attempt.way for attempt in attempts] == ways
    assert len(attempts[-1].silenced) == biases
    assert list_judged(events) == [prop.name for prop in EXERCISE.properties]
    assert [each.target.name for each in events if isinstance(each, TargetStarted)] == [TARGET.name]


def test_own_terms_are_another_target(
    sandbox: SandboxDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    returned = "return attn_weights @ values"
    source = EXERCISE.solution.replace(returned, f"{returned}, attn_weights")
    events, attempts = follow(sandbox, tmp_path, monkeypatch, source)
    assert [attempt.way for attempt in attempts] == [Way.BATCHED, Way.LIVE]
    started = [each.target for each in events if isinstance(each, TargetStarted)]
    assert [target.contract is None for target in started] == [True, False]
    assert list_judged(events) == 2 * [prop.name for prop in EXERCISE.properties]
    assert any(isinstance(event, SearchAdvanced) for event in events)


def test_a_class_that_cannot_be_loaded_keeps_the_lines_of_its_error(
    grade_text: GradeText,
) -> None:
    source = EXERCISE.solution.replace("SelfAttention_v2", "SelfAttentionV2")
    record = grade_text(source.replace('    """Scaled', '    size = unknown, lost\n    """Scaled'))
    assert record.error is not None and "unknown" in record.error.message
    assert "size = unknown, lost" in record.source[0].text


RANDOM = EXERCISE.solution.replace("torch.softmax(", "torch.rand(()) + torch.softmax(")
