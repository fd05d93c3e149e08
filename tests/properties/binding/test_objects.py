"""Classes that are given objects: parts of attention, which the same file makes, and caches."""

import pytest

from headcheck.properties.binding.binding import NotBound
from headcheck.properties.binding.describe import list_assumptions
from headcheck.properties.contracts.contract import Capability, Positions
from headcheck.properties.terms.call_form import CacheConvention, Given, Taken
from tests.forms.bank import open_class
from tests.properties.binding.strangers import (
    CAUSAL,
    SEPARATE,
    bind_source,
    make,
    mistaken,
    must_bind,
)

pytestmark = pytest.mark.filterwarnings("ignore")
C = Capability
CORE = """
class Triangle:
    def __init__(self, n):
        self.hidden = torch.ones(n, n, dtype=torch.bool).triu(1)

class Core(nn.Module):
    def __init__(self, d_head, drop=0.0):
        super().__init__()
        self.root, self.drop = d_head ** 0.5, nn.Dropout(drop)

    def forward(self, q, k, v, mask):
        if mask is None:
            mask = Triangle(q.shape[-2])
        s = (q @ k.mT / self.root).masked_fill(mask.hidden, -torch.inf)
        return self.drop(s.softmax(-1)) @ v, None
"""
FUNCTION = """
def attend(q, k, v, mask=None):
    s = q @ k.mT / q.size(-1) ** 0.5
    return (s if mask is None else s.masked_fill(mask == 0, -1e9)).softmax(-1) @ v, None
"""
ROTARY = """
class Rotary(nn.Module):
    def __init__(self, dim, base=1e4):
        super().__init__()
        rates = base ** -(torch.arange(0, dim, 2).double() / dim)
        self.register_buffer("rates", rates, persistent=False)

    def forward(self, t):
        angles = torch.outer(torch.arange(t.shape[-2]).to(self.rates), self.rates)
        cos, sin = (part.repeat(1, 2).to(t.dtype) for part in (angles.cos(), angles.sin()))
        a, b = t.chunk(2, -1)
        return t * cos + torch.cat([-b, a], -1) * sin
"""
GIVEN = "o = self.out(self.core(q, k, v, mask)[0].transpose(1, 2).flatten(2))"


def make_given(before: str, core: str = "core", mask: str = "mask=None") -> str:
    """The source of a class that is given what computes the weights and what they average."""
    init = f"self.heads, self.core = heads, {core}\n{SEPARATE}"
    parts = {"init": init, "call": f"x, {mask}", "out": GIVEN, "before": before}
    return (
        make(takes=f"{core}, dim, heads", **parts)
        .replace("w = s.softmax(-1)", "")
        .replace("s = q @ k.mT / q.shape[-1] ** 0.5", "")
    )


@pytest.mark.parametrize("core", ["core", "inner_attention"])
def test_a_part_that_is_given_is_made_by_the_class_that_fits(core: str) -> None:
    source = make_given(CORE, core)
    binding = must_bind(source)
    assert binding.contract.has(C.CAUSAL, C.HEADS, C.DROPOUT)
    said = list(list_assumptions(open_class(source, "Own")[1], binding.contract))
    taken = "which takes `d_head`, the width of one head, `drop`, the rate of dropout"
    assert f"its `{core}` is made by `Core`, {taken}" in said


def test_a_required_mask_that_is_made_of_nothing_is_none() -> None:
    contract = must_bind(make_given(CORE, mask="mask")).contract
    assert contract.call_form.given == {"mask": Given.NONE}
    assert not contract.has(C.MASK)


def test_a_required_mask_that_is_taken_is_judged() -> None:
    assert must_bind(make_given(FUNCTION, mask="mask")).contract.has(C.MASK)


def test_a_function_may_be_what_is_given() -> None:
    assert must_bind(make_given(FUNCTION)).contract.has(C.FULL, C.MASK)


def test_what_is_wrong_with_a_given_part_is_named() -> None:
    assert mistaken(make_given(CORE.replace(" / self.root", ""))) == ["no_scale"]


def test_what_turns_queries_and_keys_may_be_given() -> None:
    scores = "q, k = self.rope(q), self.rope(k)\ns = q @ k.mT / q.shape[-1] ** 0.5"
    source = make(
        takes="dim, heads, rope",
        init=f"self.rope = rope\n{SEPARATE}",
        scores=scores,
        mask=CAUSAL,
        before=ROTARY,
    )
    assert must_bind(source).contract.positions is Positions.ROTARY


@pytest.mark.parametrize("result", ["o", "o + x"])
def test_what_only_surrounds_an_attention_that_it_is_given_is_not_judged(result: str) -> None:
    around = f"""

class Around(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, x):
        o = self.fn(x)
        return {result}
"""
    found = bind_source(make() + around, "Around")
    assert isinstance(found, NotBound)
    assert found.tried == "the attention module is an argument of this class"


CACHE = """
class Store:
    def __init__(self, layers=1):
        self.held = [None] * layers

    def update(self, k, v, layer):
        if self.held[layer] is not None:
            k, v = (torch.cat(pair, -2) for pair in zip(self.held[layer], (k, v)))
        self.held[layer] = k, v
        return k, v
"""
EXTEND = """
if {name} is not None:
    k, v = {name}.update(k, v, 0)
"""
LATER = """
s = q @ k.mT / q.shape[-1] ** 0.5
hidden = torch.ones_like(s, dtype=torch.bool).triu(1 + k.shape[-2] - q.shape[-2])
s = s.masked_fill(hidden, -torch.inf)
"""


def make_cached(name: str, result: str = "o") -> str:
    scores = EXTEND.format(name=name) + LATER
    return make(call=f"x, {name}=None", scores=scores, result=result, before=CACHE)


@pytest.mark.parametrize(
    ("name", "result"), [("cache", "o"), ("past_kv", "o, past_kv"), ("history", "o, None")]
)
def test_a_cache_that_calls_write_into_is_made_by_its_class(name: str, result: str) -> None:
    contract = must_bind(make_cached(name, result)).contract
    assert contract.has(C.CACHE, C.HANDED_CACHE)
    assert contract.call_form.cache == CacheConvention(name, made_by="Store")


@pytest.mark.parametrize(
    ("taken", "takes"),
    [
        ("max_len", Taken.LENGTH),
        ("dtype", Taken.DTYPE),
        ("batch", Taken.BATCH),
        ("num_layers", Taken.LAYERS),
    ],
)
def test_a_cache_whose_class_takes_something_is_given_it(taken: str, takes: Taken) -> None:
    source = make_cached("cache").replace("layers=1", f"{taken}, layers=1")
    contract = must_bind(source).contract
    made = CacheConvention("cache", made_by="Store", reset_takes={taken: takes})
    assert contract.call_form.cache == made


def test_a_cache_whose_class_takes_something_unknown_is_not_made() -> None:
    source = make_cached("cache").replace("layers=1", "secret, layers=1")
    assert not must_bind(source).contract.has(C.CACHE)


def test_another_object_that_calls_take_is_no_cache() -> None:
    contract = must_bind(make_cached("helper")).contract
    assert not contract.has(C.CACHE)


TUPLE = """
if past is not None:
    if len(past) != 0:
        k, v = torch.cat([past[0], k], -2), torch.cat([past[1], v], -2)
    past = k, v
"""
DICT = """
if past is not None:
    if "k" in past:
        k, v = torch.cat([past["k"], k], -2), torch.cat([past["v"], v], -2)
    past["k"], past["v"] = k, v
"""


@pytest.mark.parametrize(
    ("scores", "result", "made_by"), [(TUPLE, "o, past", "tuple"), (DICT, "o", "dict")]
)
def test_a_cache_may_begin_empty(scores: str, result: str, made_by: str) -> None:
    contract = must_bind(make(call="x, past=None", scores=scores + LATER, result=result)).contract
    assert contract.has(C.CACHE)
    assert contract.call_form.cache == CacheConvention("past", made_by=made_by)


@pytest.mark.parametrize(("scores", "result"), [(TUPLE, "o, past"), (DICT, "o")])
def test_an_empty_cache_that_is_used_wrongly_is_claimed(scores: str, result: str) -> None:
    wrong = scores.replace("past[0], k", "k, past[0]").replace('past["k"], k', 'k, past["k"]')
    assert wrong != scores
    contract = must_bind(make(call="x, past=None", scores=wrong + LATER, result=result)).contract
    assert contract.has(C.CACHE)


def test_what_never_keeps_anything_has_no_cache() -> None:
    contract = must_bind(make(call="x, past=None", mask=CAUSAL, result="o, None")).contract
    assert not contract.has(C.CACHE)
