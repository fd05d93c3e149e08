"""Names of one letter, which elsewhere stand for sizes, roles or biases, mislead nobody."""

import string
from pathlib import Path

import pytest

from headcheck.exercises import Exercise
from headcheck.exercises.contract_file import read_exercise
from headcheck.exercises.contract_writer import write_contract
from headcheck.grader.authoring.drafts import draft_statement
from headcheck.properties.contracts.contract import Capability, Contract
from tests.forms.bank import open_class
from tests.properties.binding.strangers import OUT, PROJECT, SEPARATE, make, must_bind

pytestmark = pytest.mark.filterwarnings("ignore")
LETTERS = (*string.ascii_lowercase, "B", "T")
SAID = {"c": "width", "d": "width", "e": "width", "h": "heads"}
"""letters that are taken at their word"""
every_letter = pytest.mark.sampled("letter", LETTERS, ("b", "d", "h", "k", "n", "t", "T"))


def takes(width: str, heads: str) -> dict[str, str]:
    return {
        "takes": f"{width}, {heads}",
        "init": f"self.heads = {heads}\ndim = {width}\n{SEPARATE}",
    }


def bind_and_write(**parts: str) -> Contract:
    """The contract of a class with a free width and free heads, as it is after it was written."""
    source = make(**parts)
    contract = must_bind(source).contract
    assert contract.has(Capability.HEADS, Capability.WIDTHS) and contract.sizes is None
    assert draft_statement(contract, open_class(source, "Own")[1])
    exercise = Exercise("own", "Own", contract, Path("/course/own"))
    again = read_exercise(exercise.folder, write_contract(exercise)).contract
    assert (again.arguments, again.mappings, again.call_form) == (
        contract.arguments,
        contract.mappings,
        contract.call_form,
    )
    return contract


@every_letter
def test_an_argument_of_any_letter_is_found_out(letter: str) -> None:
    pairs = {"width": (letter, "num_heads"), "heads": ("embed_dim", letter)}
    for quantity, (width, heads) in pairs.items():
        if SAID.get(letter, quantity) == quantity:
            contract = bind_and_write(**takes(width, heads))
            assert [a.quantity for a in contract.arguments] == ["d_out", "heads"]


@every_letter
def test_tokens_of_any_letter_are_found_out(letter: str) -> None:
    own = {"call": letter, "inputs": f"{letter}, {letter}, {letter}"}
    assert bind_and_write(**own).call == ("x",)
    if letter != "h":
        assert bind_and_write(**own, **takes(letter, "h")).call == ("x",)


@pytest.mark.parametrize("letters", ["abcd", "bqkv", "vkqo", "kbto", "hnmb"])
def test_weights_of_any_letters_are_found_out(letters: str) -> None:
    attributes = [f"self.{letter}" for letter in letters]
    first, last = ", ".join(attributes[:3]), attributes[3]
    named = ", ".join(attributes)
    layers = must_bind(
        make(
            init=f"{named} = (nn.Linear(dim, dim) for _ in range(4))",
            project=PROJECT.replace("self.q, self.k, self.v", first),
            out=OUT.replace("self.out", last),
        )
    ).contract
    matrices = must_bind(
        make(
            init=f"{named} = (nn.Parameter(torch.randn(dim, dim)) for _ in range(4))",
            project=f"pairs = zip(inputs, ({first}))\n"
            "cut = [(x @ m).unflatten(-1, (self.heads, -1)) for x, m in pairs]\n"
            "q, k, v = (each.transpose(1, 2) for each in cut)",
            out=f"o = (w @ v).transpose(1, 2).flatten(2) @ {last}",
        )
    ).contract
    for contract, suffix in ((layers, ".weight"), (matrices, "")):
        held = {m.path: m.holds[0] for m in contract.mappings if m.holds[0][0] == "W"}
        expected = zip(letters, ("W_q", "W_k", "W_v", "W_o"), strict=True)
        assert held == {f"{letter}{suffix}": name for letter, name in expected}
