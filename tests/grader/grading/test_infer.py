"""Which definition answers which exercise: names, signatures, and what is said otherwise."""

from dataclasses import asdict

import nbformat
import pytest

from headcheck.exercises import ALL, BY_SLUG, Exercise
from headcheck.grader.grading import definitions, infer
from headcheck.grader.grading.infer import TargetNotFound
from headcheck.grader.reading.cells import read_source
from headcheck.grader.reading.outline import list_definitions


def a_class(name: str, parameters: str, base: str = "nn.Module") -> str:
    return (
        f"class {name}({base}):\n"
        f"    def __init__(self, {parameters}):\n        super().__init__()\n"
        "    def forward(self, x):\n        return x\n"
    )


CAUSAL = a_class("CausalAttention", "d_in, d_out, context_length, dropout, qkv_bias=False")


def answers(*cells: str, slug: str | None = None, name: str | None = None) -> dict[str, str]:
    """The exercises that the definitions of a notebook answer."""
    v4 = nbformat.v4
    notebook = v4.new_notebook(cells=[v4.new_code_cell(cell) for cell in cells])
    read = read_source(str(nbformat.writes(notebook)).encode(), "ipynb")
    found = definitions.parse_outline({"definitions": [asdict(d) for d in list_definitions(read)]})
    exercise = None if slug is None else BY_SLUG[slug]
    return {t.name: t.exercise.slug for t in infer.choose_targets(found, exercise, name)}


def refusal(*cells: str, slug: str | None = None, name: str | None = None) -> str:
    with pytest.raises(TargetNotFound) as caught:
        answers(*cells, slug=slug, name=name)
    return str(caught.value)


# --------------------------------------------------------------- what notebooks define


@pytest.mark.parametrize("exercise", ALL, ids=lambda e: e.slug)
def test_every_solution_answers_its_exercise(exercise: Exercise) -> None:
    assert answers(exercise.solution)[exercise.contract.name] == exercise.slug


def test_heads_from_causal_attention() -> None:
    sizes = "d_in, d_out, context_length, dropout, num_heads, qkv_bias=False"
    assert answers(
        CAUSAL, a_class("MultiHeadAttentionWrapper", sizes), a_class("MultiHeadAttention", sizes)
    ) == {
        "CausalAttention": "causal_attention",
        "MultiHeadAttentionWrapper": "multi_head_wrapper",
        "MultiHeadAttention": "multi_head_attention",
    }


def test_the_authors_name_after_the_classs_and_helpers_beside_it() -> None:
    fused = a_class("CausalSelfAttentionMarcin2", "block_size, n_head, n_embd")
    assert answers(
        "class GPTConfig:\n    def __init__(self, block_size, n_embd, n_head): pass",
        a_class("CausalSelfAttentionKarpathy1", "config"),
        a_class("Head", "block_size, n_embd, head_size")
        + a_class("MultiHead", "block_size, n_head, n_embd"),
        fused,
        fused,
    ) == {
        "CausalSelfAttentionKarpathy1": "causal_self_attention",
        "MultiHead": "looped_causal_self_attention",
        "CausalSelfAttentionMarcin2": "fused_causal_self_attention",
    }


def test_two_versions_side_by_side() -> None:
    assert answers(
        a_class("SelfAttention_v1", "d_in: int, d_out: int"),
        a_class("SelfAttention_v2", "d_in: int, d_out: int, qkv_bias=False"),
    ) == {"SelfAttention_v1": "self_attention_v1", "SelfAttention_v2": "self_attention_v2"}


@pytest.mark.parametrize(
    ("parameters", "slug"),
    [
        ("d_model=512, num_heads=8", "masked_multi_head"),
        ("d_model, num_heads", "masked_multi_head"),
        ("d_model, num_heads, dropout=0.1", "masked_multi_head"),
        ("dim, heads", "masked_multi_head"),
        ("d_in, d_out, context_length, dropout, num_heads, qkv_bias=False", "multi_head_attention"),
        ("num_heads, d_in, d_out, context_length, dropout", "multi_head_attention"),
        ("d_in, d_out, context_length, num_heads, dropout=0.0", "multi_head_attention"),
        ("a, b, c, d, e, f=False", "multi_head_attention"),
    ],
)
def test_two_exercises_share_a_name_and_the_arguments_decide(parameters: str, slug: str) -> None:
    found = answers(a_class("MultiHeadAttention", parameters))
    assert found == {"MultiHeadAttention": slug}


@pytest.mark.parametrize(
    ("name", "parameters", "slug"),
    [
        ("MyCausalAttention", "d_in, d_out, context_length, dropout", "causal_attention"),
        ("CausalAttention2", "d_in, d_out, context_length, dropout", "causal_attention"),
        ("Causal_Attention", "d_in, d_out, context_length, dropout", "causal_attention"),
        ("causalattention", "d_in, d_out, context_length, dropout", "causal_attention"),
        ("SelfAttentionV1", "d_in, d_out", "self_attention_v1"),
        ("SelfAttentionV2", "d_in, d_out, qkv_bias=False", "self_attention_v2"),
        ("MultiHeadAttn", "d_model, num_heads", "masked_multi_head"),
        ("CausalSelfAttention", "config, layer_idx=None", "causal_self_attention"),
    ],
)
def test_renamed_classes_are_recognised_by_similarity(
    name: str, parameters: str, slug: str
) -> None:
    assert answers(a_class(name, parameters)) == {name: slug}


@pytest.mark.parametrize(
    "parameters",
    [
        "in_dim, out_dim, length, p, bias=False",
        "d_in, d_out, context_length, dropout, *, qkv_bias=False",
        "*args, **kwargs",
        "d_in, d_out, **others",
    ],
)
def test_renamed_and_open_parameters_fit_by_place(parameters: str) -> None:
    assert answers(a_class("CausalAttention", parameters)) == {
        "CausalAttention": "causal_attention"
    }


@pytest.mark.parametrize(
    "definition",
    ["def linear(inputs, w, b): ...", "def linear(x, weight, bias, *, out=None): ..."],
)
def test_functions_are_called_by_place(definition: str) -> None:
    assert answers(definition) == {"linear": "linear_layer"}


@pytest.mark.parametrize("arguments", ["query, key, value, block_size", "q, k, v, size, mask=None"])
def test_numbers_that_a_function_takes_count(arguments: str) -> None:
    definition = f"def online_attention({arguments}): ..."
    assert answers(definition) == {"online_attention": "online_softmax"}
    with pytest.raises(
        infer.TargetNotFound, match=r"should take `.*\(query, key, value, block_size\)`"
    ):
        answers("def online_attention(query, key, value): ...")


def test_an_inherited_constructor_counts() -> None:
    base = a_class("Base", "d_in, d_out, context_length, dropout, qkv_bias=False")
    found = answers(base, "class CausalAttention(Base):\n    pass")
    assert found["CausalAttention"] == "causal_attention"


def test_class_without_its_base_is_graded() -> None:
    text = (
        "class CausalAttention:\n    def __init__(self, d_in, d_out, context_length, dropout): ..."
    )
    assert answers(text) == {"CausalAttention": "causal_attention"}


def test_everything_else_answers_nothing() -> None:
    others = [
        a_class("Block", "config"),
        a_class("FeedForward", "d_model"),
        a_class("TransformerBlock", "d_in, d_out, context_length, dropout, num_heads"),
        a_class("Head", "block_size, n_embd, head_size"),
        "def plot(weights): ...",
        "@dataclass\nclass Config:\n    n_embd: int = 3",
    ]
    assert answers(CAUSAL, *others) == {"CausalAttention": "causal_attention"}
    assert refusal(*others).startswith("none of its definitions (`Block`, `FeedForward`, ")


def test_a_constructor_of_another_name_is_offered() -> None:
    text = a_class("CausalAttention", "d_in, d_out, context_length, dropout")
    assert refusal(text.replace("__init__", "__int__", 1)).startswith(
        "there is no `__init__` in `CausalAttention`; did you mean `__int__`? (cell 1, line "
    )


# ------------------------------------------------------------------- what is asked for


def test_only_the_given_exercise_is_graded() -> None:
    both = CAUSAL, a_class("SelfAttention_v1", "d_in, d_out")
    assert answers(*both, slug="self_attention_v1") == {"SelfAttention_v1": "self_attention_v1"}


def test_a_given_exercise_takes_the_exact_name_whatever_its_arguments() -> None:
    odd = a_class("CausalAttention", "sizes")
    assert answers(odd, slug="causal_attention") == {"CausalAttention": "causal_attention"}


def test_a_given_exercise_takes_the_closest_name_that_fits() -> None:
    sizes = "d_in, d_out, context_length, dropout, num_heads"
    found = answers(
        a_class("MultiHeadAttn", sizes), a_class("Wrapper", sizes), slug="multi_head_attention"
    )
    assert found == {"MultiHeadAttn": "multi_head_attention"}


def test_given_name_is_graded_whatever_it_resembles() -> None:
    second = a_class("Attempt", "d_in, d_out, context_length, dropout")
    assert answers(CAUSAL, second, slug="causal_attention", name="Attempt") == {
        "Attempt": "causal_attention"
    }
    assert answers(CAUSAL, second, name="CausalAttention") == {
        "CausalAttention": "causal_attention"
    }


# --------------------------------------------------------------------- what is said


def test_a_misspelt_name_is_suggested_with_its_cell() -> None:
    text = CAUSAL.replace("CausalAttention", "CasualAttention")
    message = "there is no `CausalAttention`; did you mean `CasualAttention`? found in cell 2"
    assert refusal("x = 1", text, name="CausalAttention") == message
    wrong = a_class("MultiheadAtention", "width")
    assert refusal("x = 1", "y = 2", wrong, slug="multi_head_attention") == (
        "there is no `MultiHeadAttention`; did you mean `MultiheadAtention`? found in cell 3"
    )


def test_definitions_are_listed_if_none_is_similar() -> None:
    assert refusal(CAUSAL, slug="linear_layer") == (
        "there is no `linear`; it defines `CausalAttention`"
    )
    many = "\n".join(f"def step_{i}(): ..." for i in range(40))
    assert len(refusal(many, slug="linear_layer")) < 200


@pytest.mark.parametrize("cell", ["", "x = 1", "# a comment", "print('hello')"])
def test_a_notebook_that_defines_nothing_says_so(cell: str) -> None:
    assert refusal(cell) == "it defines no class and no function"
    assert refusal(cell, slug="linear_layer") == "there is no `linear`; it defines nothing"


def test_actual_arguments_are_shown_beside_the_expected_ones() -> None:
    odd = a_class("MultiHeadAttention", "d_in, d_out, heads, mask=None")
    assert refusal(odd) == (
        "`MultiHeadAttention` takes (d_in, d_out, heads, mask); it should take "
        "`MultiHeadAttention(d_in, d_out, context_length, dropout, num_heads, qkv_bias)` or "
        "`MultiHeadAttention(d_model, num_heads)`"
    )


def test_a_misspelt_exercise_is_suggested() -> None:
    with pytest.raises(
        TargetNotFound, match="no exercise 'causal_atention'; did you mean causal_att"
    ):
        infer.find_exercise("causal_atention")
    with pytest.raises(TargetNotFound, match="no exercise 'zzz'; see `headcheck list`"):
        infer.find_exercise("zzz")


def test_a_lambda_answers_like_a_function() -> None:
    cell = "scaled_dot_product_attention = lambda x, W_query, W_key, W_value: x"
    assert answers(cell) == {"scaled_dot_product_attention": "scaled_dot_product"}


def test_another_name_is_graded_if_the_first_is_no_match() -> None:
    odd = CAUSAL.replace("CausalAttention", "Mine")
    assert answers(odd, "CausalAttention = Mine") == {"CausalAttention": "causal_attention"}
    assert answers(odd, "CausalAttention = Mine", slug="causal_attention") == {
        "CausalAttention": "causal_attention"
    }
    assert answers(CAUSAL, "Attention = CausalAttention") == {"CausalAttention": "causal_attention"}


def test_arguments_in_another_order_are_noted() -> None:
    cell = a_class("CausalAttention", "d_out, d_in, context_length, dropout, qkv_bias=False")
    read = read_source(cell.encode(), "py")
    found = definitions.parse_outline({"definitions": [asdict(d) for d in list_definitions(read)]})
    [target] = infer.choose_targets(found, None, None)
    [note] = target.notes
    assert note.kind == "argument_order"
    assert note.message == (
        "`CausalAttention` takes (d_out, d_in, context_length, dropout, qkv_bias); "
        "the statement says (d_in, d_out, context_length, dropout, qkv_bias)"
    )
