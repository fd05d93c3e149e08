"""The contract of what is recognised is written, read back, and told in the statement."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headcheck.exercises import Exercise
from headcheck.exercises.contract_file import read_exercise
from headcheck.exercises.contract_writer import write_contract
from headcheck.grader.authoring import drafts
from headcheck.grader.authoring.author import _check_contract
from headcheck.grader.authoring.decisions import CannotAuthor, decide
from headcheck.grader.authoring.recognising import Recognised
from headcheck.grader.grading.open_mode.targets import make_open_target
from headcheck.grader.reading.submission import Submission
from headcheck.properties.binding.binding import Binding, bind
from headcheck.properties.contracts.contract import Capability, Contract
from tests.forms.bank import open_class
from tests.properties.binding.today import make_today

pytestmark = pytest.mark.filterwarnings("ignore")
SOLUTIONS = Path(__file__).parent / "solutions"
C = Capability


def recognise(source: str, name: str) -> Recognised:
    subject, signature = open_class(source, name)
    found = bind(subject, signature)
    assert isinstance(found, Binding)
    return Recognised(signature, make_open_target(signature, found))


def write_and_read(contract: Contract) -> Contract:
    exercise = Exercise("own", "Own", contract, Path(), cases=12)
    return read_exercise(Path("/course/own"), write_contract(exercise)).contract


@pytest.mark.parametrize(
    ("file", "name", "needs", "told"),
    [
        ("grouped_keys", "GroupedAttention", C.GROUPED, "`(kv_heads · head_dim, width)`"),
        ("rotary_positions", "RotaryAttention", C.POSITIONS, "`p · 10000^(-2i/n)`"),
        ("sliding_window", "WindowAttention", C.WINDOW, "as the window is long"),
    ],
)
def test_a_solution_with_more_steps_is_written_and_read_back(
    file: str, name: str, needs: Capability, told: str
) -> None:
    found = recognise((SOLUTIONS / f"{file}.py").read_text("utf-8"), name)
    contract = decide(found.contract, {})
    assert contract.has(needs, C.CAUSAL)
    assert write_and_read(contract) == contract
    assert told in drafts.draft_statement(contract, found.signature)


STEPS: list[tuple[dict[str, Any], str]] = [
    ({"norm": "rms_plus_one", "share": 0.5}, "The first 0.5 of the numbers"),
    ({"norm": "layer"}, "the root of their variance"),
    ({"norm": "torch"}, "the dtype's `eps`"),
    ({"norm": "rms", "whole": True}, "the numbers of all heads' queries of a token"),
    ({"norm": "rms", "whole": True, "shared": True}, "`(kv_heads · head_dim,)`"),
    ({"sink": "whole"}, "`(1, heads, 1, 1)`"),
    ({"sink": "flat", "shared": True}, "`(heads,)`"),
    ({"gate": "heads_with_bias"}, "`(heads, width)`"),
    ({"gate": "numbers"}, "sigmoid(x W_gateᵀ)"),
    ({"projections": "axes", "out": "axes"}, "`(width, heads, head_dim)`"),
    ({"projections": "axes", "shared": True}, "`(width, kv_heads, head_dim)`"),
]


@pytest.mark.parametrize(("steps", "told"), STEPS, ids=lambda each: str(each)[:40])
def test_what_models_of_today_have_is_written_and_told(steps: dict[str, Any], told: str) -> None:
    found = recognise(make_today(**steps), "Own")
    contract = decide(found.contract, {})
    assert write_and_read(contract) == contract
    assert told in drafts.draft_statement(contract, found.signature)


def test_one_key_for_all_heads_without_an_argument_is_refused_with_what_to_do() -> None:
    shared = make_today(shared=True).replace("dim, heads, kv_heads", "dim, heads")
    found = recognise(shared.replace("* kv_heads", "* 1"), "Own")
    assert found.contract.has(C.GROUPED)
    with pytest.raises(CannotAuthor, match="add one, such as `num_kv_heads=1`"):
        _check_contract(found, Submission(Path("own.py"), "own.py"))


def test_rules_of_sizes_are_kept() -> None:
    found = recognise(make_today(norm="rms", share=1), "Own")
    contract = decide(found.contract, {})
    assert replace(contract, size_rules=None) != contract
    assert "head_dim" in str(write_and_read(contract).size_rules)
