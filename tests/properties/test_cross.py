"""Cross-attention: keys and values are of their own tokens, of which there may be any number."""

from collections.abc import Sequence

import pytest
from torch import Tensor, nn

from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.contracts.contract import Argument, Capability, Contract
from headcheck.properties.contracts.parameter_mapping import ParameterMapping
from headcheck.properties.families import ALL
from headcheck.properties.families.cross import (
    keys_and_values_come_from_their_own_tokens,
    there_may_be_fewer_keys_than_queries,
)
from headcheck.properties.harness.harness import Harness
from headcheck.properties.property import Property
from headcheck.properties.terms.call_form import CallForm
from headcheck.properties.terms.case import Case
from tests.submissions import accuse

C = Capability
OWN = keys_and_values_come_from_their_own_tokens
FEWER = there_may_be_fewer_keys_than_queries
CASE = Case(batch=2, tokens=4, context_length=4, d_in=6, heads=1, head_dim=6)


class Cross(nn.Module):
    """One head; queries come from the first input, keys and values from the last ones."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim, bias=False) for _ in range(3))

    def forward(self, x: Tensor, *others: Tensor) -> Tensor:
        return self.attend(x, others[0], others[-1])

    def attend(self, x: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        scores = self.q(x) @ self.k(keys).mT / x.shape[-1] ** 0.5
        mixed: Tensor = scores.softmax(-1) @ self.v(values)
        return mixed


class Selfish(Cross):
    def attend(self, x: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return super().attend(x, x, x)


class ValuesOfQueries(Cross):
    def attend(self, x: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return super().attend(x, keys, x[:, : keys.shape[1]].repeat(1, 2, 1)[:, : keys.shape[1]])


class Swapped(Cross):
    def attend(self, x: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return super().attend(x, values, keys)


class NotFewer(Cross):
    def attend(self, x: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        assert keys.shape[1] >= x.shape[1]
        return super().attend(x, keys, values)


class NotAlone(Cross):
    def attend(self, x: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return super().attend(x, keys, values / 2 if keys.shape[1] == 1 else values)


def make_harness(cls: type[nn.Module], inputs: Sequence[str]) -> Harness:
    contract = Contract(
        name="Cross",
        arguments=(Argument("dim", "d_out"),),
        mappings=tuple(ParameterMapping(f"{n}.weight", (f"W_{n}",)) for n in "qkv"),
        call=tuple(inputs),
        call_form=CallForm(tuple(inputs)),
        capabilities=frozenset(
            {C.MODULE, C.ATTENTION, C.TOKENS, C.FULL, C.BATCH, C.PROJECTED, C.INITIALISED, C.CROSS}
        ),
        square=True,
    )
    return Harness(make_subject({"Cross": cls}), contract)


def holds(prop: Property, cls: type[nn.Module], inputs: Sequence[str]) -> bool:
    harness = make_harness(cls, inputs)
    return not accuse(prop, harness, [harness.contract.fit(CASE)])


TWO, THREE = ("query", "context"), ("query", "key", "value")


@pytest.mark.parametrize("prop", [OWN, FEWER], ids=lambda p: p.name)
@pytest.mark.parametrize("inputs", [TWO, THREE], ids="-".join)
def test_what_is_right_keeps_each(prop: Property, inputs: Sequence[str]) -> None:
    assert prop in ALL
    assert holds(prop, Cross, inputs)


@pytest.mark.parametrize(
    ("wrong", "inputs", "broken"),
    [
        (Selfish, TWO, (OWN, FEWER)),
        (Selfish, THREE, (OWN, FEWER)),
        (ValuesOfQueries, TWO, (OWN, FEWER)),
        (Swapped, THREE, (OWN, FEWER)),
        (NotFewer, TWO, (FEWER,)),
        (NotAlone, TWO, (FEWER,)),
    ],
)
def test_what_is_wrong_breaks_them(
    wrong: type[nn.Module], inputs: Sequence[str], broken: Sequence[Property]
) -> None:
    assert tuple(p for p in (OWN, FEWER) if not holds(p, wrong, inputs)) == broken
