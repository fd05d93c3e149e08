"""torch's flex_attention, not compiled: windows, limited scores and shared heads are right.

On the CPU it has no backward, and is not called while a mode of torch looks on. So of all
properties those are tried that compare outputs, in evaluation.
"""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import flex_attention

from headcheck.exercises.contract_file import load_contract
from headcheck.grader.ui.pytest_plugin.suite import PropertySuite, PropertyVariant
from headcheck.properties.families.masking import (
    a_prefix_gives_the_same_outputs,
    the_future_is_invisible,
)
from headcheck.properties.families.scale import the_scores_are_divided_by_the_root_of_the_head_size
from headcheck.properties.families.values import it_equals_the_equation
from headcheck.properties.families.variants import (
    a_window_longer_than_the_sequence_hides_nothing,
    neighbouring_heads_share_keys_and_values,
    no_score_exceeds_its_limit,
    what_lies_before_the_window_is_invisible,
)
from headcheck.properties.families.weights import the_weights_are_a_softmax_of_the_scaled_scores
from headcheck.properties.property import Property

pytestmark = pytest.mark.filterwarnings("ignore")  # it warns that it is not compiled
CONTRACT = """\
name = "Flex"
capabilities = ["causal", "batch", "bias", "stable"]
square = true

[arguments]
width = "d_out"
heads = "heads"
kv_heads = "kv_heads"
window = "window"
softcap = "softcap"

[parameters]
"query.weight" = "W_q"
"query.bias" = "b_q"
"key.weight" = "W_k"
"key.bias" = "b_k"
"value.weight" = "W_v"
"value.bias" = "b_v"
"out.weight" = "W_o"
"out.bias" = "b_o"
"""
CASES = 6
TRIED = (
    it_equals_the_equation,
    the_future_is_invisible,
    a_prefix_gives_the_same_outputs,
    what_lies_before_the_window_is_invisible,
    a_window_longer_than_the_sequence_hides_nothing,
    no_score_exceeds_its_limit,
    the_scores_are_divided_by_the_root_of_the_head_size,
    the_weights_are_a_softmax_of_the_scaled_scores,
    neighbouring_heads_share_keys_and_values,
)


class Flex(nn.Module):
    """Attention with a window, limited scores and shared keys, by flex_attention."""

    longer = 0

    def __init__(self, width: int, heads: int, kv_heads: int, window: int, softcap: float) -> None:
        super().__init__()
        self.head_dim, self.window, self.softcap = width // heads, window, softcap
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, kv_heads * self.head_dim)
        self.value = nn.Linear(width, kv_heads * self.head_dim)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        layers = self.query, self.key, self.value
        cut = (layer(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for layer in layers)
        query, key, value = cut
        mixed = flex_attention(query, key, value, self.adjust, enable_gqa=True)
        assert isinstance(mixed, Tensor)
        output: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return output

    def adjust(self, score: Tensor, _b: Tensor, _h: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """Limit a score, and hide keys that are later or before the window."""
        limited = self.softcap * torch.tanh(score / self.softcap)
        visible = (key <= query) & (query - key < self.window + self.longer)
        return torch.where(visible, limited, float("-inf"))


class Longer(Flex):
    """The same with a window that is longer by one token."""

    longer = 1


def make_suite(made: type[nn.Module], folder: Path) -> PropertySuite:
    file = folder / "flex.contract.toml"
    file.write_text(CONTRACT, encoding="utf-8")
    return PropertySuite({"Flex": made}, load_contract(file), CASES)


def find_failures(suite: PropertySuite, props: tuple[Property, ...]) -> set[str]:
    torch.compiler.reset()  # a thousand shapes are more than it keeps
    variants = (PropertyVariant(prop, "cpu", "float64") for prop in props)
    outcomes = ((each.prop.name, suite.get_outcome(each)) for each in variants)
    return {name for name, outcome in outcomes if outcome.failure or outcome.skipped}


@pytest.mark.whole
def test_flex_attention_gives_what_the_equation_gives(tmp_path: Path) -> None:
    assert find_failures(make_suite(Flex, tmp_path), TRIED) == set()


@pytest.mark.whole
def test_a_window_that_is_longer_by_one_is_found(tmp_path: Path) -> None:
    wanted = what_lies_before_the_window_is_invisible
    assert find_failures(make_suite(Longer, tmp_path), (wanted,)) == {wanted.name}
