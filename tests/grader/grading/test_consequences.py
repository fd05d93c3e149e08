"""What follows from a named mistake is told apart from what does not, and only the former folds."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from markupsafe import escape

from headcheck.exercises import ALL, BY_SLUG, Exercise
from headcheck.exercises.answers import find_answer, list_answers
from headcheck.grader.grading import consequences
from headcheck.grader.grading.consequences import (
    PASSED,
    ComputationChecker,
    explain_verdicts,
    find_consequences,
)
from headcheck.grader.grading.recording import Explained
from headcheck.grader.grading.settings import Settings
from headcheck.grader.report.records import PropertyRecord, SubmissionRecord, build_report
from headcheck.grader.report.render import html, text
from headcheck.grader.sandbox.isolation import IsolationLevel
from headcheck.grader.seed import make_seed
from headcheck.properties.counting import count
from headcheck.properties.families.gradients import (
    the_gradients_predict_a_small_step_of_the_weights,
)
from headcheck.properties.families.results import the_dtype_is_kept
from headcheck.properties.families.values import it_equals_the_equation
from headcheck.properties.families.weights import the_weights_sum_to_one
from headcheck.properties.mistakes.catalogue import ALL as MISTAKES
from headcheck.properties.mistakes.catalogue.dropout import DROPOUT
from headcheck.properties.mistakes.faulty_attention import (
    list_computations,
    make_correct_computation,
    restate,
)
from headcheck.properties.mistakes.pipeline import CORRECT
from headcheck.properties.mistakes.recognisers.recogniser import DiagnosedMistake
from headcheck.properties.property import Property, Verdict
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import Status, Violation, ViolationKind
from tests.grader.conftest import GradeText
from tests.grader.grading.open_classes import HEAD, STRANGE
from tests.grader.report.records import count_rows

BY_NAME = {mistake.name: mistake for mistake in MISTAKES}
MULTI_HEAD = BY_SLUG["multi_head_attention"]
FOR_IT = Settings(MULTI_HEAD)
MAX_SHOWN, MAX_FOR_TWO = 25, 27
"""how many lines of 80 columns one cause may fill, and one with something beside it"""
SAMPLE = 1000
"""in ordinary runs, one of so many wrong answers that announce a name is looked at"""


# ------------------------------------------------------------------ a model of a mistake

SMALL = [exercise for exercise in ALL if exercise.contract.sizes is None]
OTHERWISE = {
    "a_state_has_the_same_size_after_many_tokens",
    "bfloat16_tells_positions_apart",
    "it_goes_through_the_fused_attention",
    "it_keeps_fewer_numbers_than_scores",
    "it_never_holds_a_matrix_of_tokens",
    "it_never_holds_all_scores",
    "its_backward_never_holds_all_scores",
    "kept_keys_and_values_are_not_computed_again",
    "kept_latents_and_turned_keys_are_not_computed_again",
    "lambdas_start_as_stated",
    "the_weights_start_between_zero_and_one",
}
"""what the model does otherwise than some statement, whatever is right or wrong"""


@pytest.mark.sampled("exercise", SMALL, SMALL[1::16], ids=lambda exercise: exercise.slug)
def test_without_mistakes_the_model_keeps_every_property(exercise: Exercise) -> None:
    contract = restate(exercise.contract)
    checker = ComputationChecker(contract, make_correct_computation(exercise.contract))
    plan = {p: cases[0] for p, cases in exercise.plan_cases().items() if contract.has(*p.needs)}
    assert len(plan) >= len(exercise.properties) - 3
    broken = {prop.name for prop, case in plan.items() if checker.check(prop, case) != PASSED}
    assert broken <= OTHERWISE


@pytest.mark.parametrize("mistake", DROPOUT, ids=lambda mistake: mistake.name)
def test_every_mistake_in_dropout_breaks_something(mistake: object) -> None:
    [mistake] = [each for each in DROPOUT if each is mistake]
    contract = restate(MULTI_HEAD.contract)
    for computation in list_computations(contract, [DiagnosedMistake(mistake, 2, 2)]):
        checker = ComputationChecker(contract, computation)
        plan = {p: c[0] for p, c in MULTI_HEAD.plan_cases().items() if "drop" in p.name}
        outcomes = {p.name: checker.check(p, case) for p, case in plan.items()}
        assert set(outcomes.values()) != {PASSED}
        assert ("crashed", "") not in outcomes.values()


def fail(prop: Property, case: Case, kind: ViolationKind = ViolationKind.VALUE) -> Verdict:
    violation = Violation(kind, "this", "that")
    return Verdict(prop, Status.FAILED, 1, case, violation)


def diagnose(name: str) -> list[DiagnosedMistake]:
    [overrides, *_] = BY_NAME[name].variants
    return [DiagnosedMistake(BY_NAME[name], 9, 9, ways=((CORRECT.override(overrides),),))]


CASE = next(c for c in MULTI_HEAD.plan_cases()[it_equals_the_equation] if c.tokens > 3 < c.head_dim)


def find(verdict: Verdict, name: str = "no_scale") -> frozenset[Property]:
    return find_consequences(MULTI_HEAD.contract, [verdict], diagnose(name))


def test_what_the_model_breaks_follows() -> None:
    assert find(fail(it_equals_the_equation, CASE)) == {it_equals_the_equation}


def test_what_fails_otherwise_does_not_follow() -> None:
    assert not find(fail(it_equals_the_equation, CASE, ViolationKind.FINITE))


def test_nothing_follows_from_what_is_not_known() -> None:
    verdicts = [fail(it_equals_the_equation, CASE)]
    unknown = [DiagnosedMistake(BY_NAME["no_scale"], 9, 9)]
    assert find_consequences(MULTI_HEAD.contract, verdicts, unknown) == frozenset()
    assert find_consequences(MULTI_HEAD.contract, verdicts, []) == frozenset()


def spoil(prop: Property, kind: ViolationKind) -> Verdict:
    violation = Violation(kind, "a finite number", "nan", "output")
    return Verdict(prop, Status.FAILED, case=CASE, violation=violation)


def test_what_fails_by_another_dtype_alone_follows_from_the_claim_that_tells_of_it() -> None:
    of_dtype = spoil(the_dtype_is_kept, ViolationKind.DTYPE)
    others = [
        spoil(it_equals_the_equation, ViolationKind.DTYPE),
        spoil(the_weights_sum_to_one, ViolationKind.VALUE),
    ]
    contract = MULTI_HEAD.contract
    explained = explain_verdicts(contract, [of_dtype, *others], [])
    assert explained.properties == {the_dtype_is_kept, it_equals_the_equation}
    assert explain_verdicts(contract, others, []).properties == frozenset()


def test_one_head_under_many_names_is_stepped_many_times() -> None:
    contract = BY_SLUG["multi_head_wrapper"].contract
    repeated = BY_NAME["one_head_repeated"]
    found = DiagnosedMistake(repeated, 3, 3, (), ((CORRECT.override(repeated.variants[1]),),))
    case = contract.fit(Case(batch=1, tokens=3, context_length=3, d_in=2, heads=2, seed=3))
    prop = the_gradients_predict_a_small_step_of_the_weights
    plain, tied = (
        ComputationChecker(restate(contract), each).check(prop, case)
        for each in list_computations(contract, [found])
    )
    assert (plain, tied) == (PASSED, ("failed", "value"))


def test_the_same_case_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = fail(it_equals_the_equation, CASE)
    assert find(verdict)
    monkeypatch.delattr(consequences, "find_first_failure")
    assert find(verdict)


def test_a_fault_of_ours_costs_no_grade(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(consequences, "find_consequences")
    verdicts = [fail(it_equals_the_equation, CASE)]
    known = [DiagnosedMistake(BY_NAME["no_scale"], 9, 9)]
    explained = explain_verdicts(MULTI_HEAD.contract, verdicts, known)
    [told] = explained.faults
    assert replace(explained, faults=()) == Explained()
    assert told.kind == "fault" and "NameError" in told.message and "report it" in told.message


def test_a_fault_of_ours_is_a_note_beside_the_grade(
    grade_text: GradeText, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(consequences, "find_consequences")
    record = grade_text(change_solution(ONE["no_mask"]), FOR_IT)
    assert [each.name for each in record.diagnosis] == ["no_mask"] and record.score > 0
    assert [note.kind for note in record.notes] == ["fault"]
    assert not any(p.follows for p in list_failed(record))


# ------------------------------------------------------------------ single mistakes


def list_failed(record: SubmissionRecord) -> list[PropertyRecord]:
    return [p for p in record.properties if p.status not in ("passed", "not_tried")]


def list_left(record: SubmissionRecord) -> set[str]:
    """The names of what does not follow."""
    return {p.name for p in list_failed(record) if not p.follows}


def render(record: SubmissionRecord, more: str = "--verbose") -> str:
    """What a command prints."""
    level = IsolationLevel("A", ("namespaces",))
    return text.render(build_report([record], level, make_seed(0)), more)


def iter_tagged() -> Iterator[str]:
    """The wrong answers that announce a single name."""
    for exercise in SMALL:
        for answer in list_answers(exercise, "wrong"):
            _, found, names = answer.description.partition("(named: ")
            if found and "," not in names:
                yield f"{exercise.slug}/{answer.name}"


TAGGED = list(iter_tagged())
LEFT = {
    "attention_sink/one_is_added": {"sinks_far_above_the_scores_take_all"},  # it divides 0 by 0
    "causal_attention/input_scaled_in_place": {"the_output_has_the_right_shape"},
    "causal_attention/training_switched_off": {"the_training_flag_is_left_alone"},
    "fused_causal_self_attention/identity": {"it_goes_through_the_fused_attention"},
    "fused_causal_self_attention/returns_values": {"it_goes_through_the_fused_attention"},
    "looped_causal_self_attention/loop_returns_early": {
        "every_weight_gets_a_gradient",
        "the_gradients_predict_a_small_step_of_the_weights",
    },
    "masked_multi_head/extra_layer_norm": {"there_are_no_other_parameters"},
    "masked_multi_head/scores_times_mask": {"any_number_but_zero_lets_attend", "bfloat16_runs"},
    "masked_multi_head/shares_query_and_key_layer": {
        "the_gradients_predict_a_small_step_of_the_weights",
        "the_output_bias_shifts_the_output",
        "the_projections_start_different",
    },
    "multi_head_attention/calls_self_eval": {"the_training_flag_is_left_alone"},
    "multi_head_attention/out_proj_missing": {"the_weights_are_where_the_exercise_says"},
    "multi_head_attention/output_on_the_meta_device": {
        "derivatives_reach_only_the_past",
        "earlier_calls_do_not_matter",
        "every_weight_gets_a_gradient",
        "it_moves_to_another_device",
        "the_device_is_kept",
        "the_gradient_predicts_a_small_step",
        "the_gradients_predict_a_small_step_of_the_weights",
    },
    "multi_head_attention/query_and_key_tied": {
        "the_gradients_predict_a_small_step_of_the_weights",
        "the_projections_start_different",
    },
    "multi_head_attention/softmax_over_batch": {
        "the_gradients_predict_a_small_step_of_the_weights"
    },
    "multi_head_wrapper/concatenated_over_batch": {"the_biases_follow_the_option"},
    "multi_head_wrapper/concatenated_over_tokens": {"the_biases_follow_the_option"},
    "multi_head_wrapper/one_head_repeated": {
        "the_gradients_predict_a_small_step_of_the_weights",
        "the_heads_start_different",
    },
    "multi_head_wrapper/value_layer_shared": {"the_heads_start_different"},
    "scaled_dot_product/input_centred_in_place": {
        "results_may_be_written_over",
        "the_gradient_predicts_a_small_step",
        "the_input_is_left_unchanged",
    },
    "two_dimensional_output/heads_averaged": {"the_weights_are_where_the_exercise_says"},
    "two_dimensional_output/zeros": {"the_weights_are_where_the_exercise_says"},
    "weight_transfer/query_copied_to_all": {"the_gradients_predict_a_small_step_of_the_weights"},
}
"""what another reason breaks as well"""


@pytest.mark.sampled("answer", TAGGED, TAGGED[::SAMPLE])
def test_one_cause_is_one_message(grade_text: GradeText, answer: str) -> None:
    slug, name = answer.split("/")
    record = grade_text(find_answer(BY_SLUG[slug], name).source, Settings(BY_SLUG[slug]))
    shown = render(record)
    left = list_left(record) if record.diagnosis else set()
    assert left <= LEFT.get(answer, set()), shown
    assert count_rows(shown) <= (MAX_FOR_TWO if left else MAX_SHOWN), shown
    whole = render(record, "")
    alike = [p for p in list_failed(record) if p.claim not in whole]
    assert not alike or f"{count(len(alike), 'more check')} ended the same way" in whole


# ------------------------------------------------------------------ a second one beside it

ONE = {
    "no_scale": (" / self.head_dim**0.5", ""),
    "no_mask": ('self.is_future[:tokens, :tokens], float("-inf")', "torch.tensor(False), 0.0"),
    "softmax_over_queries": ("(scores, dim=-1)", "(scores, dim=-2)"),
    "filled_with_zero": ('float("-inf")', "0.0"),
    "merge_without_transpose": ("(weights @ values).transpose(1, 2)", "(weights @ values)"),
}
"""a mistake by name, and how it is put into the solution"""
ANOTHER = {
    "dropout_acts_on_the_attention_weights": (
        "values = self.W_value(x)",
        "values = self.dropout(self.W_value(x))",
    ),
    "every_call_drops_anew": ("self.dropout(torch.softmax", "(torch.softmax"),
    "evaluation_ignores_dropout": (
        "nn.Dropout(dropout)",
        "lambda weights: nn.functional.dropout(weights, dropout)",
    ),
    "the_gradient_predicts_a_small_step": ("self.W_key(x)", "self.W_key(x.detach())"),
    "heads_that_do_not_divide_the_width_are_refused": ("d_out % num_heads != 0", "False"),
    "the_heads_start_different": (
        "self.dropout = ",
        "nn.init.zeros_(self.W_key.weight)\n        self.dropout = ",
    ),
}
"""a claim, and how a fault that breaks it is put into the solution"""
PAIRS = [
    ("no_scale", "dropout_acts_on_the_attention_weights"),
    ("no_scale", "the_gradient_predicts_a_small_step"),
    ("no_mask", "every_call_drops_anew"),
    ("no_mask", "evaluation_ignores_dropout"),
    ("softmax_over_queries", "heads_that_do_not_divide_the_width_are_refused"),
    ("softmax_over_queries", "dropout_acts_on_the_attention_weights"),
    ("filled_with_zero", "the_heads_start_different"),
    ("merge_without_transpose", "the_gradient_predicts_a_small_step"),
]
ALL_PAIRS = [(one, other) for one in ONE for other in ANOTHER]


def change_solution(*edits: tuple[str, str]) -> str:
    source = MULTI_HEAD.solution
    for old, new in edits:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return source


@pytest.mark.sampled(("mistake", "claim"), ALL_PAIRS, PAIRS[5::5])
def test_a_second_fault_stays_visible(grade_text: GradeText, mistake: str, claim: str) -> None:
    source = change_solution(ANOTHER[claim], ONE[mistake])
    record = grade_text(source, FOR_IT)
    named, *others = record.diagnosis
    assert named.name == mistake
    assert any(p.follows for p in list_failed(record))
    shown = render(record)
    alone = grade_text(change_solution(ANOTHER[claim]), FOR_IT)
    if others:
        assert [each.name for each in alone.diagnosis] == [each.name for each in others]
        assert "Two mistakes were found:" in shown and others[0].sentence in shown
        return
    assert claim in list_left(record) & {p.name for p in list_failed(alone)}
    assert " not explained by it:\n" in shown and count_rows(shown) <= MAX_FOR_TWO, shown
    [first, *_] = [p.claim for p in list_failed(record) if not p.follows]
    words = " ".join(shown.split())  # which are wrapped
    assert words.index(first) > words.index("not explained by it")


# ------------------------------------------------------------------ other forms


@pytest.mark.whole
def test_a_class_in_its_own_terms_is_modelled_too(grade_text: GradeText) -> None:
    record = grade_text(HEAD + STRANGE.replace(" / q.shape[-1] ** 0.5", ""))
    assert [each.name for each in record.diagnosis] == ["no_scale"]
    assert list_failed(record) and not list_left(record)


def test_two_outputs_have_a_pipeline_each(grade_text: GradeText) -> None:
    exercise = BY_SLUG["causal_weights"]
    record = grade_text(
        find_answer(exercise, "row_sums_without_keepdim").source, Settings(exercise)
    )
    assert record.diagnosis and list_failed(record) and not list_left(record)


def test_beside_a_named_mistake_there_is_no_other_hint(grade_text: GradeText) -> None:
    record = grade_text(change_solution(ONE["no_mask"]), FOR_IT)
    following = [p for p in list_failed(record) if p.follows]
    assert following
    assert not any("\n  hint " in p.message or "\n  hint " in p.words for p in following)
    assert record.diagnosis[0].example is not None


def test_a_mistake_leaves_no_guess_about_a_variable(grade_text: GradeText) -> None:
    source = change_solution((" / self.head_dim**0.5", " * FACTOR / FACTOR"))
    record = grade_text(f"{source}\nFACTOR = 4.0\n", FOR_IT)
    assert [each.name for each in record.diagnosis] == ["no_scale"]
    assert "notebook_variable" in {note.kind for note in record.notes}
    assert not any("reads the module variable" in p.message for p in record.properties)


def test_a_page_folds_what_follows(grade_text: GradeText) -> None:
    record = grade_text(change_solution(ONE["no_mask"]), FOR_IT)
    following = [p for p in list_failed(record) if p.follows]
    example = next(p.claim for p in following if p.evidence)
    folded = [p.claim for p in following if p.claim != example]
    page = html.render_page(record, build_report([record]))
    fold = page.partition(f"{len(folded)} more checks fail for this reason")[2]
    assert folded and all(f": {escape(claim)}</h" in fold for claim in folded)
    assert f": {escape(example)}</h" in page and f": {escape(example)}</h" not in fold
