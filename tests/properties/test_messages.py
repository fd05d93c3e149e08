"""What is said of a wrong answer is true of it, and in the words of its exercise."""

import textwrap

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.properties.check import check_property
from headcheck.properties.contracts.case_description import describe_case
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.contracts.parameter_mapping import ParameterMapping
from headcheck.properties.families import contract, dropout, gradients, purity
from headcheck.properties.families import device as device_claims
from headcheck.properties.property import Property, Verdict
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import Status
from tests.submissions import load_source


def judged(slug: str, claim: Property, source: str) -> Verdict:
    """The verdict on one claim about a submission."""
    exercise = BY_SLUG[slug]
    imports = "import torch\nfrom torch import nn\n"
    harness = load_source(imports + textwrap.dedent(source), exercise.contract)
    return check_property(claim, harness, exercise.plan_cases()[claim])


def test_an_argument_that_is_written_over_has_the_name_that_the_exercise_gives_it() -> None:
    source = """
        def linear(x, weight, bias):
            weight *= 2
            return x @ weight.T + bias
    """
    verdict = judged("linear_layer", purity.the_input_is_left_unchanged, source)
    assert "exactly the same numbers at weight\n" in verdict.message


def test_weight_without_gradient_is_described_by_its_path() -> None:
    source = """
        def linear(x, weight, bias):
            return x @ weight.detach().T + bias
    """
    verdict = judged("linear_layer", gradients.the_gradients_of_the_weights_are_right, source)
    assert "expected  a gradient at W_v (in `weight`)\n" in verdict.message
    assert "got       none reaches it\n" in verdict.message


def test_missing_return_value_is_reported_plainly() -> None:
    source = "def linear(x, weight, bias): pass"
    verdict = judged("linear_layer", contract.the_output_has_the_right_shape, source)
    assert "expected  the output (1 tensor) returned\n" in verdict.message
    assert "got       None (is there a return?)\n" in verdict.message


def test_an_answer_that_stays_infinite_stays_the_same() -> None:
    source = """
        def linear(x, weight, bias):
            return x @ weight.T + bias + torch.inf
    """
    claim = device_claims.gradients_on_or_off_is_the_same_answer
    assert judged("linear_layer", claim, source).status is Status.PASSED


def test_dropout_that_gives_nan_is_not_called_irreproducible() -> None:
    source = """
        class CausalAttention(nn.Module):
            def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
                super().__init__()
                self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
                self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
                self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
                self.dropout = nn.Dropout(dropout)

            def forward(self, x):
                values = self.dropout(self.W_value(x))
                return values.masked_fill(values == 0, torch.nan)
    """
    verdict = judged("causal_attention", dropout.every_call_drops_anew, source)
    assert verdict.status is Status.PASSED


FOLLOW = contract.the_biases_follow_the_option
WHERE = contract.the_weights_are_where_the_exercise_says


@pytest.mark.parametrize(
    ("layer", "claim", "told"),
    [
        ("W_key", FOLLOW, "a bias `W_key.bias` with qkv_bias=True\n"),
        ("out_proj", WHERE, "a weight `out_proj.bias` of shape (1,)\n"),
    ],
)
def test_a_missing_bias_says_when_it_is_asked_for(layer: str, claim: Property, told: str) -> None:
    source = BY_SLUG["multi_head_attention"].solution
    line = next(line for line in source.splitlines() if f"self.{layer} = " in line)
    bare = line.replace("qkv_bias)", "False)").replace("d_out)", "d_out, bias=False)")
    assert told in judged("multi_head_attention", claim, source.replace(line, bare)).message


@pytest.mark.parametrize(
    ("path", "holds", "told"),
    [
        ("W_query.weight", ("W_q",), "W_q (in `W_query.weight`)"),
        ("c_attn.weight", ("W_q", "W_k", "W_v"), "W_q (in `c_attn.weight`)"),
        ("heads.{head}.query.weight", ("W_q",), "W_q (in `heads.<i>.query.weight`)"),
        ("W_key.weight", ("W_k",), "W_q"),
    ],
)
def test_parameter_is_described_by_its_path(path: str, holds: tuple[str, ...], told: str) -> None:
    asked = Contract(name="A", mappings=(ParameterMapping(path, holds),))
    assert asked.describe_parameter("W_q") == told


@pytest.mark.parametrize(
    ("slug", "sizes"),
    [
        ("linear_layer", "batch=1 tokens=2 d_in=3 d_out=4"),
        ("scaled_dot_product", "tokens=2 d_in=3 d_out=4"),
        ("causal_attention", "batch=1 tokens=2 context_length=5 d_in=3 d_out=4"),
        ("multi_head_attention", "batch=1 tokens=2 context_length=5 d_in=3 d_out=4 num_heads=2"),
        ("masked_multi_head", "batch=1 tokens=2 d_model=4 num_heads=2"),
        ("multi_head_wrapper", "batch=1 tokens=2 context_length=5 d_in=3 d_out=2 num_heads=2"),
        ("causal_self_attention", "batch=1 tokens=2 block_size=5 n_embd=4 n_head=2"),
        ("two_dimensional_output", "batch=1 tokens=2 context_length=5 d_in=3 heads=2"),
    ],
)
def test_case_is_described_by_the_sizes_of_the_exercise(slug: str, sizes: str) -> None:
    case = Case(batch=1, tokens=2, context_length=5, d_in=3, heads=2, head_dim=2, seed=7)
    assert describe_case(BY_SLUG[slug].contract, case) == f"{sizes} float64 cpu seed=7"
