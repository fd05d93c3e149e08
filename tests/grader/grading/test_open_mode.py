"""A class that answers no exercise by its name is judged as what it computes, end to end."""

import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader.audit.matrix import load_answers
from headcheck.grader.grading.grade import grade_file_or_raise
from headcheck.grader.grading.open_mode import SLUG, adapt_contract
from headcheck.grader.grading.search_limit import SearchLimit
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.submission import find_submissions
from headcheck.grader.report.records import SubmissionRecord
from headcheck.grader.sandbox.limits import Limits
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.families import ALL
from headcheck.properties.terms.call_form import CacheConvention, CallForm

if TYPE_CHECKING:
    from tests.grader.conftest import GradeText, SandboxDriver

Grade = Callable[..., dict[str | None, SubmissionRecord]]

HEAD = "import torch\nfrom torch import nn\n\n\n"
# Its heads follow one another in a fused layer, each with its query, key and value.
STRANGE = """
class Blender(nn.Module):
    def __init__(self, width, pieces):
        super().__init__()
        self.pieces = pieces
        self.first = nn.Linear(width, 3 * width)
        self.last = nn.Linear(width, width)

    def forward(self, tokens):
        b, t, w = tokens.shape
        q, k, v = self.first(tokens).view(b, t, self.pieces, -1).transpose(1, 2).chunk(3, -1)
        scores = q @ k.mT / q.shape[-1] ** 0.5
        return self.last((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, w))
"""
# Attention without a softmax.
UNKNOWN = """
class Linear(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def forward(self, x):
        q, k = (nn.functional.elu(layer(x)) + 1 for layer in (self.q, self.k))
        return q @ (k.mT @ self.v(x)) / (q @ k.sum(1, keepdim=True).mT)
"""
# The exercise of that name takes d_in, d_out, context_length and dropout, and is causal.
OTHERWISE = """
class SelfAttention(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(embed_dim, embed_dim) for _ in range(3))
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, query, key, value, mask=None):
        def split(x):
            return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

        q, k, v = split(self.q_proj(query)), split(self.k_proj(key)), split(self.v_proj(value))
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        weights = scores.softmax(-1)
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2)), weights
"""
CAUSAL_OTHERWISE = """
class CausalAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        t = x.shape[1]
        scores = self.q(x) @ self.k(x).mT / x.shape[-1] ** 0.5
        future = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        return scores.masked_fill(future, -torch.inf).softmax(-1) @ self.v(x)
"""


@pytest.fixture
def grade(sandbox: "SandboxDriver", tmp_path: Path) -> Grade:
    """Grades a file; the records by the names that were judged."""

    def grade_source(
        source: str, slug: str | None = None, settings: Settings | None = None, **limits: float
    ) -> dict[str | None, SubmissionRecord]:
        path = tmp_path / "ada.py"
        path.write_text(HEAD + textwrap.dedent(source), encoding="utf-8")
        exercise = BY_SLUG[slug] if slug else None
        settings = settings or Settings(exercise=exercise, limits=Limits().with_overrides(limits))
        [handed_in] = find_submissions([str(path)])
        records = grade_file_or_raise(sandbox.server, handed_in, settings)
        return {record.name: record for record in records}

    return grade_source


def told(record: SubmissionRecord) -> list[str]:
    return [note.message for note in record.notes if note.kind == "recognised"]


def broken(record: SubmissionRecord) -> list[str]:
    return [p.name for p in record.properties if p.status not in ("passed", "not_tried")]


# ------------------------------------------------------------------------ as what it is


def test_a_right_class_of_any_form_passes_and_what_was_assumed_is_said(grade: Grade) -> None:
    record = grade(STRANGE)["Blender"]
    assert (record.status, record.exercise) == ("passed", SLUG), broken(record)
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
    assert (record.status, record.exercise) == ("failed", SLUG)
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
    assert (record.status, record.exercise) == ("passed", SLUG), broken(record)
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
    [answer] = [
        each
        for each in load_answers(BY_SLUG["masked_multi_head"])
        if each.name == "layers_without_bias"
    ]
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


# --------------------------------------------------------------------- what goes wrong


def test_a_class_that_needs_a_missing_module_is_told_so(grade: Grade) -> None:
    [record] = grade(f"import no_such_module\n{STRANGE}    helper = no_such_module\n").values()
    assert record.score == 0
    assert record.error is not None
    assert record.error.kind == "import"
    assert "no_such_module" in record.error.message


def test_a_process_that_dies_while_a_class_is_recognised_harms_no_other(grade: Grade) -> None:
    ends = STRANGE.replace("b, t, w =", "__import__('os')._exit(1)\n        b, t, w =")
    records = grade(ends.replace("Blender", "Quits") + STRANGE)
    assert {name: record.status for name, record in records.items()} == {"Blender": "passed"}


def test_a_call_that_never_returns_while_it_is_recognised_is_told(grade: Grade) -> None:
    hangs = STRANGE.replace("b, t, w =", "while True:\n            pass\n        b, t, w =")
    [record] = grade(hangs, call_s=0.5).values()
    assert (record.score, record.properties) == (0, ())
    assert record.error is not None
    assert record.error.kind == "timed_out"


@pytest.mark.whole
def test_a_search_does_without_what_a_claim_of_its_own_denied(grade: Grade) -> None:
    [answer] = [
        each
        for each in load_answers(BY_SLUG["multi_head_attention"])
        if each.name == "qkv_bias_never"
    ]
    settings = Settings(exercise=BY_SLUG["multi_head_attention"], search=SearchLimit(cases=6))
    record = grade(answer.source, slug="multi_head_attention", settings=settings)
    assert broken(record["MultiHeadAttention"]) == ["the_biases_follow_the_option"]


def make_multi_head(old: str, new: str) -> str:
    text = (BY_SLUG["multi_head_attention"].folder / "solution.py").read_text(encoding="utf-8")
    assert old in text
    return text.replace(old, new)


def test_a_call_that_is_known_to_be_too_much_breaks_no_other_claim(grade: Grade) -> None:
    squeezed = make_multi_head("return output\n", "return output[0] if batch == 1 else output\n")
    record = grade(squeezed, slug="multi_head_attention")["MultiHeadAttention"]
    assert broken(record)[0] == "a_batch_of_one_stays_a_batch"
    by_name = {each.name: each for each in record.properties}
    assert by_name["each_sequence_is_attended_alone"].status == "not_tried"
    assert by_name["each_sequence_is_attended_alone"].points > 0
    assert by_name["dropout_acts_on_the_attention_weights"].status == "passed"
    assert record.score > 0.9 * record.max_score


# ------------------------------------------------------------------ what is not judged, and why


def test_a_class_that_raises_is_mentioned_beside_those_that_are_judged(grade: Grade) -> None:
    """Once a report on the right class alone said nothing of it."""
    wrong = STRANGE.replace("Blender", "Breaker").replace("b, t, w = ", "b, w, _ = ")
    records = grade(f"{STRANGE}\n{wrong}")
    assert [record.status for record in records.values()] == ["passed"]
    [said] = [n.message for n in records["Blender"].notes if n.kind == "unjudged"]
    assert said.startswith("`Breaker` is not judged: it raises NameError: name 't' is not defined")


def test_an_option_that_keeps_its_default_is_told_of(grade: Grade) -> None:
    record = grade(STRANGE.replace("forward(self, tokens)", "forward(self, tokens, fast=False)"))
    assert "`fast` of its calls keeps its default, and is not judged" in told(record["Blender"])


@pytest.mark.whole
def test_a_class_that_calls_itself_attention_is_mentioned_if_it_is_not_recognised(
    grade: Grade,
) -> None:
    records = grade(STRANGE + UNKNOWN.replace("class Linear(", "class PooledAttention("))
    said = [n.message for n in records["Blender"].notes if n.kind == "unjudged"]
    assert len(said) == 1 and said[0].startswith("`PooledAttention` is not judged")


@pytest.mark.whole
def test_of_helpers_the_class_that_uses_them_is_mentioned(grade: Grade) -> None:
    source = """
    def pool(q, k, v):
        return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v

    class Mixed(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.all = nn.Linear(width, 3 * width)

        def forward(self, x):
            q, k, v = self.all(x).sin().chunk(3, -1)
            return pool(q, k, v).cos()
    """
    record = grade(source)["pool"]
    said = [n.message for n in record.notes if n.kind == "unjudged"]
    assert len(said) == 1 and said[0].startswith("`Mixed` is not judged: it is not recognised")


def test_a_module_that_is_absent_is_named_before_anything_that_follows_from_it(
    grade: Grade,
) -> None:
    source = OTHERWISE.replace("class SelfAttention", "class MultiHeadAttention").replace(
        "query, key, value, mask=None", "x"
    )
    body = source.index("        def split(x)")
    source = (
        f"from elsewhere import attend\n{source[:body]}        return self.out_proj(attend(x))\n"
    )
    [record] = grade(source).values()
    assert record.error is not None and record.status == "not_tried"
    assert "`MultiHeadAttention` (it imports `elsewhere`, which is not installed" in (
        record.error.message
    )


def test_an_error_about_a_value_that_headcheck_chose_is_not_quoted(grade: Grade) -> None:
    source = """
    class Unusual(nn.Module):
        def __init__(self, a, b, c):
            super().__init__()
            self.q, self.drop = nn.Linear(a, b), nn.Dropout(c + 2)

        def forward(self, x):
            return self.q(x)
    """
    [record] = grade(source).values()
    assert record.error is not None
    assert "(no way to build and call it gave an output)" in record.error.message
    assert "probability" not in record.error.message


def test_what_returns_its_input_and_has_no_weights_is_no_attention(grade: Grade) -> None:
    same = "class Nothing(nn.Module):\n    def forward(self, x):\n        return x\n"
    assert [*grade(f"{same}\n{STRANGE}")] == ["Blender"]


# ---------------------------------------------------------------- widths that are named apart


def make_square(name: str) -> str:
    """A class whose output layer breaks it where tokens are not as wide as its output."""
    source = (BY_SLUG["multi_head_attention"].folder / "solution.py").read_text(encoding="utf-8")
    right, wrong = (
        "self.out_proj = nn.Linear(d_out, d_out)",
        "self.out_proj = nn.Linear(d_in, d_out)",
    )
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
    assert (record.exercise, record.status) == (SLUG, "passed")
    asked = grade(source, "causal_self_attention")["CausalSelfAttention"]
    assert asked.status == "crashed" and asked.score < asked.max_score


def test_what_returns_fewer_tokens_than_it_gets_is_not_accused(grade: Grade) -> None:
    source = STRANGE.replace("tokens.shape", "tokens.shape").replace(
        "transpose(1, 2).reshape(b, t, w))", "transpose(1, 2).reshape(b, t, w))[:, :1]"
    )
    [record] = grade(source).values()
    assert record.status == "not_tried"


OPTION = """\
import torch
from torch import nn


class Attend(nn.Module):
    def __init__(self, dim, heads, causal=False):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x, mask=None):
        q, k, v = (
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        shown = torch.ones(1, 1, x.shape[1], x.shape[1], dtype=torch.bool)
        if mask is not None:
            shown = shown & mask[:, None, None]
        if self.causal:
            shown = shown & shown.tril()
        scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~shown, -1e30)
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""


@pytest.mark.parametrize(
    ("new", "status", "notes"),
    [
        ("shown & shown.tril()", "passed", 4),
        ("shown | shown.tril()", "failed", 5),
        pytest.param("shown.triu()", "failed", 5, marks=pytest.mark.whole),
        ("torch.ones_like(shown).tril()", "passed", 4),  # padding comes last, and is later
    ],
)
def test_an_option_that_hides_later_tokens_is_judged_on_too(
    new: str, status: str, notes: int, grade_text: "GradeText"
) -> None:
    record = grade_text(OPTION.replace("shown & shown.tril()", new))
    assert (record.status, len(record.notes)) == (status, notes)
    said = "judged with `causal=True`, too: then it should hide later tokens"
    assert (said in [note.message for note in record.notes]) is (status == "failed")
