"""What torch.compile makes of attention gives the same answers and the same gradients.

Each module is compiled as a whole, by the default backend, which needs a C++ compiler; for shapes
that vary, as in training.
"""

import shutil

import pytest
import torch
from torch import nn

from headcheck.exercises import BY_SLUG
from headcheck.grader.ui.pytest_plugin.plugin import apply_outcome
from headcheck.grader.ui.pytest_plugin.suite import PropertySuite, PropertyVariant
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.families.gradients import (
    the_gradient_of_the_input_is_right,
    the_gradients_of_the_weights_are_right,
)
from headcheck.properties.families.masking import the_future_is_invisible
from headcheck.properties.families.training import training_gives_the_equation_of_what_it_kept
from headcheck.properties.families.values import it_equals_the_equation
from tests.library.real_bugs import Bug, find_edited, list_bugs
from tests.submissions import execute

pytestmark = [
    pytest.mark.deep,  # it compiles for a minute
    pytest.mark.filterwarnings("ignore"),  # what the compiler says of itself
]
COMPILER = next(filter(shutil.which, ("g++", "clang++", "c++")), None)
CASES = 4
COMPILED = (
    it_equals_the_equation,
    the_gradient_of_the_input_is_right,
    the_gradients_of_the_weights_are_right,
    the_future_is_invisible,
    training_gives_the_equation_of_what_it_kept,
)
BUGS = tuple(bug for bug in list_bugs() if bug.road == "compiled")


def load_class(source: str, contract: Contract) -> type[nn.Module]:
    loaded: type[nn.Module] = execute(source)[contract.name]
    return loaded


def compile_class(plain: type[nn.Module]) -> type[nn.Module]:
    """Return a class like this one whose `forward` is compiled."""

    class Compiled(plain):  # type: ignore[misc, valid-type]
        forward = torch.compile(plain.forward, dynamic=True)

    return Compiled


@pytest.mark.skipif(COMPILER is None, reason="torch.compile needs a C++ compiler")
@pytest.mark.parametrize("slug", ["multi_head_attention", "fused_causal_self_attention"])
def test_compiled_attention_is_the_same(slug: str) -> None:
    exercise = BY_SLUG[slug]
    made = compile_class(load_class(exercise.solution, exercise.contract))
    suite = PropertySuite({exercise.contract.name: made}, exercise.contract, CASES)
    for prop in COMPILED:
        if prop in exercise.properties:
            apply_outcome(suite.get_outcome(PropertyVariant(prop, "cpu", prop.dtypes[0])))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > 0


@pytest.mark.skipif(COMPILER is None, reason="torch.compile needs a C++ compiler")
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.answer)
def test_a_fault_of_compiled_code_alone_is_found(bug: Bug) -> None:
    """Where the compiler runs, these modules are wrong; eagerly they are right."""
    edited = find_edited(bug.answer)
    plain = load_class(edited.wrong, edited.contract)
    prop = next(each for each in COMPILED if each.name == bug.property)
    for made, fails in ((plain, False), (compile_class(plain), True)):
        suite = PropertySuite({edited.contract.name: made}, edited.contract, CASES)
        outcome = suite.get_outcome(PropertyVariant(prop, "cpu", "float64"))
        assert bool(outcome.failure) is fails
