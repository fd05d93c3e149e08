"""A mistake besides the equation is named if it explains every failure that others leave."""

from collections.abc import Callable

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.exercises.answers import find_answer
from headcheck.grader.grading.consequences import Failures, SymptomRecogniser
from headcheck.grader.grading.recording import Explained
from headcheck.grader.grading.settings import Settings
from headcheck.grader.report.records import SubmissionRecord, build_report
from headcheck.grader.report.render import text
from headcheck.properties.families.contract import the_biases_follow_the_option
from headcheck.properties.families.gradients import every_weight_gets_a_gradient
from headcheck.properties.families.purity import the_input_is_left_unchanged
from headcheck.properties.families.results import the_dtype_is_kept
from headcheck.properties.mistakes.catalogue.structure import STRUCTURAL
from headcheck.properties.mistakes.recognisers.recogniser import recognise
from headcheck.properties.property import Verdict
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import Reason, Status, Violation, ViolationKind
from tests.grader.conftest import GradeText

CONTRACT = BY_SLUG["multi_head_attention"].contract
CASE = Case(batch=1, tokens=3, context_length=3, d_in=2, head_dim=2)
Grade = Callable[[str, str], SubmissionRecord]
WRITTEN = Verdict(
    the_input_is_left_unchanged,
    Status.FAILED,
    case=CASE,
    violation=Violation(
        ViolationKind.VALUE,
        "the same numbers",
        "it was written over",
        "x",
        reason=Reason.INPUT_WRITTEN_OVER,
    ),
)
NARROW = Verdict(
    the_dtype_is_kept,
    Status.FAILED,
    case=CASE,
    violation=Violation(
        ViolationKind.DTYPE, "float64", "float32", "output", reason=Reason.BECAME_FLOAT32
    ),
)
NO_GRADIENT = Verdict(
    every_weight_gets_a_gradient,
    Status.FAILED,
    case=CASE,
    violation=Violation(ViolationKind.VALUE, "a gradient other than zero", "none", "W_q"),
)


def find_name(*failed: Verdict) -> str | None:
    found = recognise(Failures(CONTRACT, failed), map(SymptomRecogniser, STRUCTURAL))
    return found[0].mistake.name if found else None


def test_a_symptom_alone_is_named() -> None:
    assert find_name(WRITTEN) == "input_changed_in_place"
    assert find_name(NARROW) == "result_in_float32"


def test_a_failure_that_is_not_explained_leaves_all_without_a_name() -> None:
    assert find_name(WRITTEN, NO_GRADIENT) is None
    assert find_name(WRITTEN, NARROW) is None
    assert find_name(NO_GRADIENT) is None
    assert find_name() is None


def test_a_large_case_is_not_tried_again() -> None:
    large = Case(batch=64, tokens=1024, context_length=1024, d_in=64, head_dim=64)
    failed = Verdict(
        the_biases_follow_the_option,
        Status.FAILED,
        case=large,
        violation=Violation(ViolationKind.VALUE, "one", "other"),
    )
    assert find_name(WRITTEN, failed) is None


def test_nothing_explained_marks_nothing() -> None:
    assert Explained().mark([], []) == []
    assert Explained().list_named([]) == ()


@pytest.fixture
def grade(grade_text: GradeText) -> Grade:
    """Grades an answer of a bank."""

    def grade_answer(slug: str, name: str) -> SubmissionRecord:
        exercise = BY_SLUG[slug]
        return grade_text(find_answer(exercise, name).source, Settings(exercise=exercise))

    return grade_answer


FOLDED = [
    ("causal_attention", "mask_not_sliced", "lengths_do_not_fit"),
    ("self_attention_v1", "input_scaled_in_place", "input_changed_in_place"),
    ("self_attention_v1", "weights_detached", "weights_detached"),
    ("causal_attention", "bias_always_on", "bias_unasked"),
    ("multi_head_attention", "qkv_bias_always", "bias_unasked"),
    ("multi_head_attention", "layers_in_a_list", "weight_not_registered"),
    ("multi_head_attention", "dropout_on_context_too", "dropped_besides_the_weights"),
    ("masked_multi_head", "squeezes_single_axes", "axes_of_length_one_squeezed"),
    ("llama_attention", "only_keys_stand_further_back", "query_positions_counted_anew"),
    ("kv_cache", "room_for_a_hundred", "cache_cut_off"),
    ("multi_head_attention", "values_folded_in_evaluation", "weights_kept"),
    ("softcap", "exponentials_overflow", "not_a_number"),
    ("multi_head_attention", "rounds_float32_to_half", "digits_lost_in_float32"),
]


@pytest.mark.sampled(("slug", "answer", "mistake"), FOLDED, FOLDED[2:3])
def test_what_a_mistake_breaks_is_folded(
    grade: Grade, slug: str, answer: str, mistake: str
) -> None:
    record = grade(slug, answer)
    assert [each.name for each in record.diagnosis] == [mistake]
    failed = [p for p in record.properties if p.status in ("failed", "crashed")]
    assert all(p.follows for p in failed)
    shown = text.render(build_report([record]))
    assert "One mistake was found" in shown
    assert "not explained" not in shown


@pytest.mark.whole
def test_what_may_follow_from_a_plain_list_is_told_after_it(grade: Grade) -> None:
    """Neither optimizers nor eval() reach what is in it."""
    record = grade("multi_head_wrapper", "heads_in_a_list")
    names = [each.name for each in record.diagnosis]
    assert names == ["weight_not_registered", "dropout_in_evaluation"]
