"""Gradients tell which rows are queries, keys and values, whatever their names and their order."""

from dataclasses import replace

import pytest

from headcheck.properties.binding.explaining import find_explanation
from headcheck.properties.binding.search import BindingSearch, Match
from headcheck.properties.contracts.contract import Contract
from tests.forms.bank import Form, list_forms, open_class
from tests.properties.binding.strangers import make

RIGHT = list_forms("right")
EXCHANGED = {"W_q": "W_k", "W_k": "W_q", "b_q": "b_k", "b_k": "b_q"}
VALUES_FIRST = {"W_k": "W_v", "W_v": "W_k", "b_k": "b_v", "b_v": "b_k"}


def rename(contract: Contract, names: dict[str, str]) -> Contract:
    """Return a contract whose weights hold something else."""
    held = (tuple(names.get(name, name) for name in m.holds) for m in contract.mappings)
    mappings = (replace(m, holds=own) for m, own in zip(contract.mappings, held, strict=True))
    return replace(contract, mappings=tuple(mappings))


def explain(form: Form) -> tuple[BindingSearch, Match | None]:
    return find_explanation(BindingSearch(*open_class(form.source, form.cls)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.sampled("form", RIGHT, RIGHT[3::19], ids=lambda form: form.file.removesuffix(".py"))
def test_they_allow_what_a_right_class_computes_and_nothing_else(form: Form) -> None:
    search, match = explain(form)
    if match is None:
        return  # tests/properties/binding/test_forms.py names these classes
    case, contract = match.sizes.case, match.contract
    probes = (probe for probe in search.probes if probe.sizes == match.sizes)
    known = [probe.row_gradients for probe in probes if probe.row_gradients is not None]
    assert not known or any(each.allow_all(contract, case) for each in known)
    if len(contract.mappings) > 2 and case.kv_heads == case.heads and not case.d_context:
        for names in (EXCHANGED, VALUES_FIRST):
            assert not any(each.allow_all(rename(contract, names), case) for each in known)


SINGLE = make(
    init="self.a, self.b, self.c, self.d = (nn.Linear(dim, dim) for _ in range(4))",
    project="assert x.shape[1] > 1\nq, k, v = (\n"
    "    layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)\n"
    "    for layer in (self.c, self.a, self.b)\n)",
    out="o = self.d((w @ v).transpose(1, 2).flatten(2))",
)


def test_a_class_that_refuses_a_token_alone_is_found_by_its_queries() -> None:
    search, match = find_explanation(BindingSearch(*open_class(SINGLE, "Own")))
    assert match is not None and (match.mistakes, match.inexact) == ((), False)
    read = search.probes[0].row_gradients
    assert read is not None and read.alone is None
    assert read.allow_all(match.contract, match.sizes.case)
    assert not read.allow_all(rename(match.contract, EXCHANGED), match.sizes.case)
    assert read.allow_all(rename(match.contract, VALUES_FIRST), match.sizes.case)


def test_detached_values_contradict_nothing() -> None:
    """What is detached is a mistake in gradients, which is told of a class that is recognised."""
    detached = SINGLE.replace("w @ v", "w @ v.detach()")
    detached = detached.replace("        assert x.shape[1] > 1\n", "")
    assert "detach" in detached and "assert" not in detached
    search, match = find_explanation(BindingSearch(*open_class(detached, "Own")))
    assert match is not None and (match.mistakes, match.inexact) == ((), False)
    read = search.probes[0].row_gradients
    assert read is not None and read.alone is not None
    assert read.allow_all(match.contract, match.sizes.case)
