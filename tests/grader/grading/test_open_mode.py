"""A class that answers no exercise by its name is judged as what it computes, end to end."""

from dataclasses import replace

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.exercises.answers import find_answer
from headcheck.grader.grading.infer import OPEN
from headcheck.grader.grading.open_mode.targets import adapt_contract
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.families import ALL
from headcheck.properties.terms.call_form import CacheConvention, CallForm
from tests.grader.grading.open_classes import (
    CAUSAL_OTHERWISE,
    OTHERWISE,
    STRANGE,
    UNKNOWN,
    Grade,
    broken,
    told,
)

# ------------------------------------------------------------------------ as what it is


def test_a_right_class_of_any_form_passes_and_what_was_assumed_is_said(grade: Grade) -> None:
    record = grade(STRANGE)["Blender"]
    assert (record.status, record.exercise) == ("passed", OPEN), broken(record)
    assert record.score == record.max_score > 0
    assert told(record) == [
        "recognised by what it computes: multi-head self-attention with an output layer",
        "`Blender` takes `width`, the width of all heads together, `pieces`, the number of heads",
        "every token sees every other: if it should be causal, this is a mistake",
    ]


def test_a_class_whose_config_has_names_of_its_own_is_judged_as_any(grade: Grade) -> None:
    """Once a claim built its config anew by the names of one exercise, and it crashed."""
    source = STRANGE.replace(
        "width, pieces):", "hps):\n        width, pieces = hps.dims, hps.n_heads"
    )
    record = grade(source)["Blender"]
    assert record.status == "passed", broken(record)


def test_the_mistake_of_a_wrong_class_is_named(grade: Grade) -> None:
    record = grade(STRANGE.replace(" / q.shape[-1] ** 0.5", ""))["Blender"]
    assert (record.status, record.exercise) == ("failed", OPEN)
    assert [found.name for found in record.diagnosis] == ["no_scale"]
    assert "it_equals_the_equation" in broken(record)


def test_what_is_no_known_attention_gets_no_points_and_is_told_why(grade: Grade) -> None:
    record = grade(UNKNOWN)[None]
    assert (record.score, record.status) == (0, "not_tried")
    assert record.error is not None
    assert record.error.kind == "not_found"
    assert "not recognised as attention by what it computes: `Linear`" in record.error.message


@pytest.mark.whole
def test_of_several_classes_those_that_attend_are_judged(grade: Grade) -> None:
    records = grade(UNKNOWN + STRANGE)
    assert {name: record.status for name, record in records.items()} == {"Blender": "passed"}


@pytest.mark.whole
def test_what_resembles_an_exercise_but_is_called_otherwise_is_judged_as_what_it_is(
    grade: Grade,
) -> None:
    record = grade(OTHERWISE)["SelfAttention"]
    assert (record.status, record.exercise) == ("passed", OPEN), broken(record)
    assert told(record)[0] == (
        "recognised by what it computes: multi-head attention of queries, keys and values "
        "with an output layer and a mask and its weights returned"
    )


def test_a_mistake_in_what_only_resembles_an_exercise_is_named(grade: Grade) -> None:
    record = grade(OTHERWISE.replace("mask == 0", "mask != 0").replace("SelfAtt", "MyAtt"))
    [judged] = record.values()
    assert judged.status == "passed", "without a statement either polarity is right"
    assert "its mask is true where a query may not attend" in told(judged)


# -------------------------------------------------------------------- by an exercise


@pytest.mark.whole
def test_by_an_exercise_only_claims_about_what_it_lacks_fail(grade: Grade) -> None:
    record = grade(CAUSAL_OTHERWISE, slug="causal_attention")["CausalAttention"]
    assert record.exercise == "causal_attention"
    assert 0 < record.score < record.max_score
    assert {p.group for p in record.properties if p.status == "passed"} >= {"values"}
    assert record.diagnosis == ()
    assert told(record)[0].startswith("its arguments or results differ from the statement, `Causal")
    others = [name for name in broken(record) if not needs_what_it_lacks(name)]
    assert others == ["its_arguments_may_be_given_by_position"]


def needs_what_it_lacks(name: str) -> bool:
    """Whether a claim is about what a class that takes a width and nothing else cannot have."""
    lacks = {C.WIDTHS, C.CONTEXT, C.BIAS, C.BIAS_OPTION, C.DROPOUT}
    return any(prop.name == name and prop.needs & lacks for prop in ALL)


@pytest.mark.whole
def test_by_an_exercise_biases_that_are_missing_are_said_to_be(grade: Grade) -> None:
    answer = find_answer(BY_SLUG["masked_multi_head"], "layers_without_bias")
    record = grade(answer.source, slug="masked_multi_head")["MultiHeadAttention"]
    assert set(broken(record)) == {
        "there_are_no_other_parameters",
        "the_output_bias_shifts_the_output",
        "a_constant_added_to_all_keys_changes_nothing",
    }
    assert any("`W_o.bias` is no tensor" in each.message for each in record.properties)


def test_by_an_exercise_a_forgotten_mask_is_a_mistake(grade: Grade) -> None:
    forgotten = CAUSAL_OTHERWISE.replace("scores.masked_fill(future, -torch.inf)", "scores")
    record = grade(forgotten, slug="causal_attention")["CausalAttention"]
    assert [found.name for found in record.diagnosis] == ["no_mask"]


def test_an_exercise_decides_what_is_meant_and_the_class_how_it_is_said() -> None:
    asked, found = (BY_SLUG[s].contract for s in ("causal_attention", "multi_head_attention"))
    adapted = adapt_contract(asked, found)
    assert adapted.arguments == found.arguments
    assert adapted.mappings == found.mappings
    assert adapted.has(C.CAUSAL, C.STATED, C.OUTPUT_PROJECTION)
    assert not adapted.has(C.HEADS), "nothing is asked that the statement does not ask for"


def test_by_an_exercise_nothing_is_forgiven_that_behaviour_alone_forgives() -> None:
    asked = BY_SLUG["multi_head_attention"].contract
    form = CallForm(("x",), reset="reset", cleared=("kept",), cache=CacheConvention("past"))
    found = replace(asked, call_form=form, waived=("the_input_gradient_is_right",))
    adapted = adapt_contract(asked, found)
    assert adapted.waived == asked.waived
    assert adapted.call_form == CallForm(("x",))


def test_by_an_exercise_an_answer_with_a_norm_is_not_judged_without_it(grade: Grade) -> None:
    source = BY_SLUG["multi_head_attention"].solution
    normed = source.replace("        super().__init__()\n", NORM, 1).replace(
        "return output", "return self.norm(output), None"
    )
    assert normed.count("self.norm") == 2
    record = grade(normed, slug="multi_head_attention")["MultiHeadAttention"]
    assert record.status == "failed"
    assert record.score == 0


NORM = """        super().__init__()
        self.norm = nn.LayerNorm(d_out)
"""
FORMS = [
    ("masked_multi_head", ("self.W_o(mixed), weights", "weights, self.W_o(mixed)"), "(2, 2, 4, 4)"),
    ("multi_head_attention", ("nn.Linear(d_out, d_out)", "nn.Linear(d_out, d_in)"), "(2, 4, 3)"),
    ("multi_head_attention", ("return output", "return output, weights"), "a tuple of 2"),
    ("multi_head_wrapper", ("d_in, d_out, con", "d_in, d_out // num_heads, con"), "(2, 4, 2)"),
]
"""exercises, what of the solution is written otherwise, and what then comes back"""


@pytest.mark.sampled(("slug", "change", "got"), FORMS, FORMS[2:3])
def test_in_its_own_terms_an_answer_must_return_what_the_statement_says(
    grade: Grade, slug: str, change: tuple[str, str], got: str
) -> None:
    exercise = BY_SLUG[slug]
    assert change[0] in exercise.solution
    changed = exercise.solution.replace(*change)
    record = grade(changed, slug=slug)[exercise.contract.name]
    assert broken(record) == ["the_output_has_the_right_shape"]
    [form] = [p for p in record.properties if p.name == "the_output_has_the_right_shape"]
    assert got in form.message
    assert told(record) == [
        "its results differ from the statement, so it is judged by its behaviour"
    ]
    assert 0 < record.score < record.max_score
    assert {p.points for p in record.properties if p.group == "contract"} == {0.0}


# ---------------------------------------------------------------- widths that are named apart


def make_square(name: str) -> str:
    """A class whose output layer breaks it where tokens are not as wide as its output."""
    right, wrong = "out_proj = nn.Linear(d_out, d_out)", "out_proj = nn.Linear(d_in, d_out)"
    source = BY_SLUG["multi_head_attention"].solution
    assert right in source
    return source.replace(right, wrong).replace("class MultiHeadAttention", f"class {name}")


def test_a_class_that_works_only_at_equal_widths_is_judged_at_others(grade: Grade) -> None:
    record = grade(make_square("Blender"))["Blender"]
    assert record.status != "passed" and record.score == 0


def test_with_the_name_of_an_exercise_it_is_judged_by_the_exercise(grade: Grade) -> None:
    """Once it fell into open mode, was judged at equal widths alone, and got full points."""
    record = grade(make_square("MultiHeadAttention"))["MultiHeadAttention"]
    assert (record.exercise, record.status) == ("multi_head_attention", "failed")
    assert 0 < record.score < record.max_score


# -------------------------------------------------------- a name alone makes no answer wrong


@pytest.mark.whole
def test_a_class_with_an_exercises_name_and_none_of_its_weights_is_not_accused(
    grade: Grade,
) -> None:
    """Once it got no points because no weight had the name that an exercise asks for."""
    source = """
    class MultiHeadAttention(nn.Module):
        def __init__(self, d_model, num_heads):
            super().__init__()
            self.parts = nn.ModuleList([nn.Linear(d_model, d_model) for _ in range(num_heads)])

        def forward(self, x, mask=None):
            return torch.stack([part(x).tanh() for part in self.parts]).sum(0)
    """
    [record] = grade(source).values()
    assert record.status == "not_tried" and record.error is not None
    assert record.error.message.startswith("`MultiHeadAttention` is no masked_multi_head")
    [asked] = grade(source, "masked_multi_head").values()
    assert asked.status == "failed" and asked.exercise == "masked_multi_head"


def test_a_field_of_a_config_in_the_same_file_is_no_mistake(grade: Grade) -> None:
    """Once it paid for a field that its own config has, and the exercise of its name lacks."""
    source = (
        BY_SLUG["causal_self_attention"]
        .solution.replace("    block_size: int\n", "    block_size: int\n    depth: int = 3\n")
        .replace(
            "self.n_head = config.n_head", "self.n_head, self.depth = config.n_head, config.depth"
        )
    )
    record = grade(source)["CausalSelfAttention"]
    assert (record.exercise, record.status) == (OPEN, "passed")
    asked = grade(source, "causal_self_attention")["CausalSelfAttention"]
    assert asked.status == "crashed" and asked.score < asked.max_score


def test_what_returns_fewer_tokens_than_it_gets_is_not_accused(grade: Grade) -> None:
    source = STRANGE.replace(
        "transpose(1, 2).reshape(b, t, w))", "transpose(1, 2).reshape(b, t, w))[:, :1]"
    )
    [record] = grade(source).values()
    assert record.status == "not_tried"
