"""Smallest cases are searched for what is shown; for what is folded, if that is asked for."""

from collections.abc import Callable

import click
import pytest
from click.testing import CliRunner

from headcheck.exercises import BY_SLUG
from headcheck.exercises.answers import find_answer, list_answers
from headcheck.grader.course.store.manifest import build_manifest
from headcheck.grader.grading.live_checker import LiveChecker
from headcheck.grader.grading.settings import Settings
from headcheck.grader.report.records import PropertyRecord, SubmissionRecord
from headcheck.grader.report.render.view import make_view
from headcheck.grader.ui.options import examples_option
from headcheck.properties.check import Searched
from headcheck.properties.property import Verdict
from tests.grader.conftest import GradeText

Grade = Callable[..., SubmissionRecord]
SLUG = "causal_attention"
SAMPLE = (
    "causal_attention/no_mask",
    "self_attention_v2/parameters_normalised_in_place",
    "multi_head_attention/keys_grow_over_calls",
    "masked_multi_head/mask_as_bytes",
    "multi_head_wrapper/heads_in_a_list",
)
"""named, with nothing else or something unexplained; not named; and with side effects"""


@pytest.fixture
def grade(grade_text: GradeText) -> Grade:
    """Grades the source of an answer to an exercise."""

    def grade_answer(slug: str, source: str, *, all_examples: bool = False) -> SubmissionRecord:
        return grade_text(source, Settings(BY_SLUG[slug], all_examples=all_examples))

    return grade_answer


def wrong(name: str) -> str:
    return find_answer(BY_SLUG[SLUG], name).source


def list_failed(record: SubmissionRecord) -> list[PropertyRecord]:
    return [p for p in record.properties if p.status == "failed"]


def get_tokens(record: PropertyRecord) -> int:
    assert record.counterexample is not None
    return int(record.counterexample.case["tokens"])


# ------------------------------------------------------------------ what is searched for


def test_what_is_folded_keeps_the_case_on_which_it_failed(grade: Grade) -> None:
    record = grade(SLUG, wrong("no_mask"))
    first = make_view(record).example
    assert first is not None and first.code, "the failure that is shown has a small case"
    folded = [p for p in list_failed(record) if p.follows and p.claim != first.claim]
    kept = [p for p in folded if p.evidence is None]
    assert len(kept) > 3
    seeds = {p.name: {c.seed for c in each} for p, each in BY_SLUG[SLUG].plan_cases().items()}
    for each in kept:
        assert each.counterexample is not None
        assert each.counterexample.case["seed"] in seeds[each.name], each.name
    drawn = [p for p in list_failed(record) if p.evidence is not None]
    assert drawn and all(get_tokens(p) <= 2 for p in drawn), "pictures are of small cases"


@pytest.mark.whole
def test_all_have_smallest_cases_if_that_is_asked_for(grade: Grade) -> None:
    record = grade(SLUG, wrong("no_mask"), all_examples=True)
    assert all(get_tokens(each) <= 3 for each in list_failed(record))
    few = grade(SLUG, wrong("no_mask"))
    sizes = [sum(map(get_tokens, list_failed(each))) for each in (record, few)]
    assert sizes[0] < sizes[1]


UNNAMED = """
class CausalAttention(Plain):
    def forward(self, x):
        return super().forward(x) + (x.shape[1] > 2) * 0.1 * x.abs().amax().sin()
"""


def test_what_is_not_explained_is_shrunk(grade: Grade) -> None:
    source = BY_SLUG[SLUG].solution.replace("CausalAttention", "Plain") + UNNAMED
    record = grade(SLUG, source)
    failed = list_failed(record)
    assert failed and not record.diagnosis and not any(p.follows for p in failed)
    everything = grade(SLUG, source, all_examples=True)
    assert [p.message for p in failed] == [p.message for p in list_failed(everything)]


def test_a_failure_that_cannot_be_tried_again_stays_as_it_was(
    grade: Grade, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No process can be started any more: the verdict is all there is."""
    seen: list[Verdict] = []

    def refuse(live: LiveChecker, verdict: Verdict, before: Searched) -> tuple[Verdict, Searched]:
        seen.append(verdict)
        return verdict, before

    monkeypatch.setattr(LiveChecker, "shrink", refuse)
    record = grade(SLUG, wrong("no_mask"))
    assert seen and list_failed(record)
    assert len({v.property for v in seen}) == len(seen), "none is searched for twice"


NEVER_THE_SAME = """
class CausalAttention(Plain):
    def forward(self, x):
        return super().forward(x) + 0.1 * torch.rand(1, dtype=x.dtype)
"""


@pytest.mark.whole
def test_what_fails_by_chance_is_not_shrunk(grade: Grade, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(live: LiveChecker, verdict: Verdict, before: Searched) -> None:
        raise AssertionError("it has no smallest case")

    monkeypatch.setattr(LiveChecker, "shrink", refuse)
    solution = (BY_SLUG[SLUG].folder / "solution.py").read_text(encoding="utf-8")
    source = solution.replace("CausalAttention", "Plain") + NEVER_THE_SAME
    failed = {p.name: p for p in list_failed(grade(SLUG, source))}
    assert "evaluation_is_repeatable" in failed
    assert all(p.counterexample for p in failed.values()), "each is told on its case all the same"


@pytest.mark.parametrize(
    ("words", "wanted"),
    [([], False), (["--examples", "shown"], False), (["--examples", "all"], True)],
)
def test_an_option_asks_for_all(words: list[str], wanted: bool) -> None:
    @click.command()
    @examples_option
    def tell(all_examples: bool) -> None:
        click.echo(all_examples)

    assert CliRunner().invoke(tell, words).output == f"{wanted}\n"


def test_a_store_keeps_whether_all_were_asked_for() -> None:
    few, everything = (build_manifest(Settings(all_examples=each)) for each in (False, True))
    assert (few.settings.all_examples, everything.settings.all_examples) == (False, True)
    assert few.key != everything.key, "records are not the same"


# ------------------------------------------------------------------ nothing else depends on it


def summarise(record: SubmissionRecord) -> tuple[object, ...]:
    return (
        record.score,
        record.status,
        [(d.name, d.line) for d in record.diagnosis],
        [(p.name, p.status, p.points, p.follows) for p in record.properties],
        [p.name for p in record.properties if p.evidence is not None],
        [failure.claim for failure in make_view(record).others],
    )


def must_be_alike(grade: Grade, slug: str, source: str) -> None:
    few, everything = (grade(slug, source, all_examples=wanted) for wanted in (False, True))
    assert summarise(few) == summarise(everything)


@pytest.mark.sampled("answer", SAMPLE, SAMPLE[:1])
def test_examples_change_nothing_else(grade: Grade, answer: str) -> None:
    slug, name = answer.split("/")
    must_be_alike(grade, slug, find_answer(BY_SLUG[slug], name).source)


@pytest.mark.deep
@pytest.mark.parametrize("slug", [slug for slug in BY_SLUG if slug != "gpt2_size"])
def test_examples_change_nothing_else_in_any_answer(grade: Grade, slug: str) -> None:
    for answer in list_answers(BY_SLUG[slug], "wrong"):
        must_be_alike(grade, slug, answer.source)
