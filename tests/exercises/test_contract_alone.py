"""A contract without an exercise around it, and what attention that ships needs to say in one."""

from dataclasses import replace
from pathlib import Path

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.exercises.contract_file import load_contract
from headcheck.exercises.exercise import BadContract
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.terms.call_form import CallForm, EmptyRow, MaskConvention, Polarity
from headcheck.properties.terms.case import Case

CONTRACT = """\
name = "Attention"
call = ["x", "mask"]
capabilities = ["full", "batch"]
square = true

[arguments.config]
quantity = "config"

[arguments.config.fields]
width = "d_out"
heads = "heads"
rate = "dropout"
first = { quantity = "constant", default = true }

[parameters]
qkv = ["W_q", "W_k", "W_v"]

[call_form]
places = [0]

[call_form.mask]
polarity = "block"
axes = 2
keys_only = true
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "ours.contract.toml"
    path.write_text(text)
    return path


def test_it_may_waive_claims_that_there_are(tmp_path: Path) -> None:
    def waive(name: str) -> str:
        return CONTRACT.replace("square = true", f'square = true\nwaived = ["{name}"]')

    kept = load_contract(write(tmp_path, waive("the_dtype_is_kept")))
    assert kept.waived == ("the_dtype_is_kept",)
    with pytest.raises(BadContract, match="line 5: 'it_is_nice' is not a check of this exercise"):
        load_contract(write(tmp_path, waive("it_is_nice")))


def test_it_needs_neither_a_title_nor_other_files(tmp_path: Path) -> None:
    contract = load_contract(write(tmp_path, CONTRACT))
    mask = MaskConvention(Polarity.BLOCK, axes=2, keys_only=True)
    assert contract.call_form == CallForm(mask=mask, places=(0,))
    assert contract.has(Capability.PADDING, Capability.HEADS, Capability.DROPOUT)
    assert not contract.has(Capability.MASK)


def test_the_inputs_of_a_call_are_written_once(tmp_path: Path) -> None:
    roles = CONTRACT.replace('["x", "mask"]', '["query", "key", "value", "mask"]')
    assert load_contract(write(tmp_path, roles)).call_form.inputs == (
        "query",
        "key",
        "value",
        "mask",
    )
    alone = CONTRACT.replace('["x", "mask"]', '["x", "context"]').split("[call_form]")[0]
    assert load_contract(write(tmp_path, alone)).call_form == CallForm(("x", "context"))


def test_a_config_holds_the_fields_that_are_written(tmp_path: Path) -> None:
    contract = load_contract(write(tmp_path, CONTRACT))
    case = contract.fit(Case(heads=2, head_dim=3, dropout=0.5))
    assert contract.build_arguments(case) == {
        "config": {"width": 6, "heads": 2, "rate": 0.5, "first": True}
    }


def test_sixteen_bits_are_promised_alone_or_by_a_statement(tmp_path: Path) -> None:
    assert not load_contract(write(tmp_path, CONTRACT)).has(Capability.HALF)
    for word, stated in (("half", False), ("stated", True)):
        listed = CONTRACT.replace('"full", ', f'"full", "{word}", ')
        contract = load_contract(write(tmp_path, listed))
        assert contract.has(Capability.HALF)
        assert contract.has(Capability.STATED) is stated


def test_what_is_promised_besides_is_read(tmp_path: Path) -> None:
    text = CONTRACT.replace("keys_only = true", 'keys_only = true\nempty_row = "zeros"')
    text += "\n[call_form.without_weights]\nneed_weights = false\n"
    contract = load_contract(write(tmp_path, text))
    assert contract.call_form.mask.empty_row is EmptyRow.ZEROS
    assert contract.call_form.without_weights == {"need_weights": False}
    assert contract.has(Capability.EMPTY_ROWS, Capability.WEIGHTS_OPTION)
    plain = load_contract(write(tmp_path, CONTRACT))
    assert not plain.capabilities & {Capability.EMPTY_ROWS, Capability.WEIGHTS_OPTION}


def test_claims_about_a_statement_are_made_where_they_are_asked_for(tmp_path: Path) -> None:
    assert not load_contract(write(tmp_path, CONTRACT)).has(Capability.STATED)
    listed = CONTRACT.replace('"full", ', '"full", "stated", ')
    assert load_contract(write(tmp_path, listed)).has(Capability.STATED)


def test_the_contract_of_an_exercise_may_be_named_by_its_folder() -> None:
    exercise = BY_SLUG["multi_head_attention"]
    stated = exercise.contract.capabilities - {Capability.STATED, Capability.HALF}
    assert load_contract(exercise.folder) == replace(exercise.contract, capabilities=stated)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("default = true ", "optional = true ", "line 13: a constant needs its `default`"),
        ('"config"', '"heads"', 'line 6: only an argument that takes "config" has fields'),
        ('rate = "dropout"', 'rate = "drop"', "line 12: there is no quantity 'drop'; did you"),
        ("places = [0]", 'inputs = ["x"]', "line 19: there is no key `inputs`"),
        ('"block"', '"blocks"', "knows no 'blocks'; did you mean 'block'?"),
        ('"full", ', '"full", "bias_mask", ', "`bias_mask` needs a mask that is added"),
        ('"full", ', '"full", "forgetful", ', "`forgetful` needs a cache that is passed on"),
        ('"full", ', '"full", "weights_option", ', "write [call_form.without_weights]"),
        ('"full", ', '"full", "empty_rows", ', 'write empty_row = "finite" or "zeros"'),
        ("keys_only = true", 'empty_row = "zero"', "knows no 'zero'; did you mean 'zeros'?"),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(BadContract) as raised:
        load_contract(write(tmp_path, CONTRACT.replace(old, new, 1)))
    assert said in str(raised.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(
        BadContract, match=r"gone.toml: there is no such file: name a contract file"
    ):
        load_contract(tmp_path / "gone.toml")
