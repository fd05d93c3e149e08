"""What a level keeps back is in nothing that is written: every form is searched for it."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import msgspec
import pytest

from headcheck.exercises import BY_SLUG
from headcheck.exercises.answers import Answer, find_answer, list_answers, write_answer
from headcheck.grader import run
from headcheck.grader.course import dashboard
from headcheck.grader.course.export import FORMATS, Gradebook, export
from headcheck.grader.course.results import ExerciseResult, apply_feedback
from headcheck.grader.grading.grade import grade_file_or_raise
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.submission import find_submissions
from headcheck.grader.report.feedback import (
    Feedback,
    FeedbackLevel,
    redact_report,
    redact_submission,
)
from headcheck.grader.report.records import (
    PropertyRecord,
    Report,
    SubmissionRecord,
    build_report,
    to_json,
)
from headcheck.grader.report.render import github, html
from headcheck.grader.sandbox.grader_side.servers import ServerHandle

NUMBERS = re.compile(r"-?\d+\.\d{3,}(?:e[-+]?\d+)?|seed=\d+|\d+(?:\.\d+)?e-\d+|\[[\d, :]+\]")


QUICK = {
    "scaled_dot_product": ("scaled_after_softmax", "zeros"),
    "causal_attention": ("past_hidden",),
    "multi_head_attention": ("writes_over_its_input",),
    "masked_multi_head": ("mask_needs_two_axes",),
}
"""wrong answers that are judged in a second or two each, since every process judges them anew"""


def quick_answers() -> list[tuple[str, Answer]]:
    return [(slug, find_answer(BY_SLUG[slug], name)) for slug in QUICK for name in QUICK[slug]]


def many_answers() -> list[tuple[str, Answer]]:
    """Sixteen wrong answers to each exercise, far apart."""
    lists = [(slug, list_answers(BY_SLUG[slug], "wrong")) for slug in BY_SLUG]
    return [(s, each) for s, there in lists for each in there[:: max(1, len(there) // 16)][:16]]


LONG = 7000
"""so many seconds more make a time that no page has for another reason, as 1.000 may be points"""


@pytest.fixture(
    scope="module", params=[quick_answers, pytest.param(many_answers, marks=pytest.mark.deep)]
)
def judged(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, server: ServerHandle
) -> Sequence[SubmissionRecord]:
    """All that is known of many wrong answers."""
    folder = tmp_path_factory.mktemp("answers")
    return [
        replace(one, seconds=one.seconds + LONG)
        for slug, answer in request.param()
        for handed_in in find_submissions([str(write_answer(answer, folder))])
        for one in grade_file_or_raise(server, handed_in, Settings(exercise=BY_SLUG[slug]))
    ]


def secrets(claim: PropertyRecord) -> set[str]:
    """What of a claim's failure comes from the case or from the oracle."""
    shown = claim.counterexample
    case = {f'"seed": {shown.case["seed"]}'} if shown else set()
    drawn = msgspec.json.encode(claim.evidence).decode()
    written = f"{claim.message}\n{shown.code if shown else ''}\n{drawn}"
    numbers = {
        n for n in NUMBERS.findall(written) if not re.search(r"\.\d0*$", n)
    }  # 1.000 is nobody's
    return {*numbers, *filter(None, [claim.case]), *case}


def forms(report: Report) -> Iterator[tuple[str, str]]:
    """Everything that can be made of a report, by name."""
    for form in ("text", "json", "html", "github"):
        yield form, run.render_report(report, form)
    yield "index", html.render_index(report)
    for one in report.submissions:
        yield "page", html.render_page(one, report)


def course_forms(
    records: Sequence[SubmissionRecord], feedback: Feedback
) -> Iterator[tuple[str, str]]:
    """Everything that can be made of a course, by name."""
    standings = tuple(apply_feedback(standing(one, i), feedback) for i, one in enumerate(records))
    book = Gradebook("week 1", standings)
    # The others fill in what is there, or need a package; what they write is in these.
    plain = [name for name, each in FORMATS.items() if not (each.fills or each.extra)]
    for form in [name for name in plain if FORMATS[name].contents != "marks"]:
        for content in export(book, form).files.values():
            yield form, content.decode()
    yield "dashboard", dashboard.render(book, "0.1.0")
    for page in dashboard.render_pages(book, "0.1.0").values():
        yield "dashboard page", page


def standing(one: SubmissionRecord, number: int) -> ExerciseResult:
    return ExerciseResult(
        f"s{number}", "", "", "", one.exercise or "", one.score, one.max_score, one.score,
        one.status, 1, False, None, one,
    )  # fmt: skip


Forms = Callable[[SubmissionRecord, Feedback], Iterator[tuple[str, str]]]


def reported(one: SubmissionRecord, feedback: Feedback) -> Iterator[tuple[str, str]]:
    return forms(redact_report(build_report([one]), feedback))


def stored(one: SubmissionRecord, feedback: Feedback) -> Iterator[tuple[str, str]]:
    return course_forms([one], feedback)


@pytest.mark.parametrize("made", [reported, stored])
@pytest.mark.parametrize("level", [FeedbackLevel.NAME, FeedbackLevel.MESSAGE])
def test_cases_seeds_and_oracle_values_do_not_leak(
    judged: Sequence[SubmissionRecord], level: FeedbackLevel, made: Forms
) -> None:
    assert sum(bool(secrets(c)) for one in judged for c in one.properties) > 20
    for one in judged:
        kept_back = set().union(*(secrets(claim) for claim in one.properties))
        for form, written in made(one, Feedback(level)):
            body = re.sub(r"<style>.*?</style>|<script>.*?</script>", "", written, flags=re.S)
            points = to_json(build_report([redact_submission(one, Feedback(FeedbackLevel.NAME))]))
            leaked = {s for s in kept_back if s in body and s not in points}
            assert not leaked, f"{one.file} as {form}: {leaked}"
            assert f"{one.seconds:.3f}" not in body and str(one.seconds) not in body


@pytest.mark.parametrize("made", [reported, stored])
@pytest.mark.parametrize("level", FeedbackLevel)
def test_hidden_property_does_not_leak(
    judged: Sequence[SubmissionRecord], level: FeedbackLevel, made: Forms
) -> None:
    for one in judged:
        broken = [c for c in one.properties if c.status not in ("passed", "not_tried")]
        hidden = broken[::2]
        feedback = Feedback(level, hidden=frozenset(claim.name for claim in hidden))
        # Several claims may fail on one case, whose numbers are then told by those that are not.
        shown = (
            to_json(build_report([redact_submission(one, feedback)]))
            if level.includes(FeedbackLevel.CASE)
            else ""
        )
        for form, written in made(one, feedback):
            body = re.sub(r"<style>.*?</style>|<script>.*?</script>", "", written, flags=re.S)
            for claim in hidden:
                numbers = {s for s in secrets(claim) if s not in shown}
                leaked = {s for s in {claim.name, claim.claim, *numbers} if s in body}
                assert not leaked, f"{one.file} as {form}: {leaked}"


def test_sample_answers_violate_many_properties(judged: Sequence[SubmissionRecord]) -> None:
    broken = {c.name for one in judged for c in one.properties if c.status == "failed"}
    assert len(judged) >= 5 and len(broken) > 10


def test_reduced_json_is_read_like_any_other(judged: Sequence[SubmissionRecord]) -> None:
    whole = build_report(judged)
    for level in FeedbackLevel:
        written = json.loads(to_json(redact_report(whole, Feedback(level))))
        assert len(written["submissions"]) == len(judged)


def test_github_commands_reveal_no_more(judged: Sequence[SubmissionRecord]) -> None:
    whole = redact_report(build_report(judged), Feedback(FeedbackLevel.NAME))
    assert "expected" not in github.render(whole, lambda *_: None)
