"""A search ends: it finds a contract, finds nothing, or has no time left."""

from dataclasses import replace

import pytest

from headcheck.properties.binding import search, ways
from headcheck.properties.binding.binding import Binding, NotBound, bind
from headcheck.properties.binding.intent import expects_causality
from headcheck.properties.binding.search import BindingSearch, Match
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.signatures.signature import Signature, SignatureParameter
from headcheck.properties.violations.violation import Status, SubmissionFailed
from tests.forms.bank import open_class
from tests.properties.binding.strangers import CAUSAL, OUT, SEPARATE, bind_source, make

pytestmark = pytest.mark.filterwarnings("ignore")


def find_first(source: str) -> Match | None:
    return next(BindingSearch(*open_class(source, "Own")).iter_matches(), None)


def test_a_search_without_time_finds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ways, "MAX_STEPS", 0)
    assert find_first(make()) is None


def test_a_search_with_time_finds_the_contract_and_what_it_was_guessed_from() -> None:
    found = find_first(make())
    assert found is not None and not found.guessed
    odd = make(takes="blorp, heads", init=f"dim = blorp\n{SEPARATE}")
    guessed = find_first(odd)
    assert guessed is not None and guessed.guessed


def test_what_a_guessed_class_is_meant_to_hide_does_not_unbind_it() -> None:
    odd = make(takes="blorp, heads", init=f"dim = blorp\n{SEPARATE}")
    subject, signature = open_class(odd, "Own")
    found = bind(subject, replace(signature, causal=True))
    assert isinstance(found, Binding)
    assert found.contract.has(Capability.CAUSAL)


NOTHING = {
    "constructor raises": {"init": "raise RuntimeError('no')"},
    "forward raises": {"scores": "raise RuntimeError('no')"},
    "nothing returned": {"result": "None"},
    "a text": {"result": "'text'"},
    "a number": {"result": "o.sum()"},
}


@pytest.mark.sampled("kind", NOTHING, ["constructor raises", "a text"])
def test_what_answers_nothing_is_not_found_and_breaks_nothing(kind: str) -> None:
    assert find_first(make(**NOTHING[kind])) is None


@pytest.mark.parametrize(
    ("result", "tried"),
    [
        ("x", "its calls return the same whatever its weights are"),
        ("None", "its calls return nothing that it has computed"),
    ],
)
def test_a_class_that_is_not_written_yet_is_not_searched_for_long(result: str, tried: str) -> None:
    subject, signature = open_class(make(result=result), "Own")
    found = bind(subject, signature)
    assert isinstance(found, NotBound) and found.tried == tried
    searched = BindingSearch(subject, signature)
    assert list(searched.iter_matches()) == [] and searched.steps < 50


def test_what_is_right_for_one_sequence_alone_is_bound_as_that() -> None:
    """Its loop over queries takes a batch, too, and gives another shape of answer then."""
    rows = "w = torch.stack([(k * each).sum(-1).softmax(-1) for each in q]) / 1"
    init = "self.W_q, self.W_k, self.W_v = (nn.Linear(dim, dim) for _ in range(3))"
    source = make(
        takes="dim",
        init=init,
        project="q, k, v = self.W_q(x) / x.shape[-1] ** 0.5, self.W_k(x), self.W_v(x)",
        scores="s = q",
        weights=rows,
        out="o = w @ v",
    )
    found = bind(*open_class(source, "Own"))
    assert isinstance(found, Binding) and (found.mistakes, found.inexact) == ((), False)
    assert not found.contract.has(Capability.BATCH)


def test_a_process_that_is_gone_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    subject, signature = open_class(make(), "Own")

    def end(*given: object, **options: object) -> None:
        raise SubmissionFailed(Status.TIMED_OUT, "too slow")

    monkeypatch.setattr(subject, "construct", end)
    with pytest.raises(SubmissionFailed, match="too slow"):
        next(BindingSearch(subject, signature).iter_matches())


# -------------------------------------------------------------------------------- effects

LAYER = make(
    takes="dim, heads, hidden",
    call="x, memory, mask, padding",
    init=SEPARATE
    + """
other = nn.ModuleList(nn.Linear(dim, dim) for _ in range(4))
self.other, self.first = other, nn.LayerNorm(dim)
self.up, self.down = nn.Linear(dim, hidden), nn.Linear(hidden, dim)
""",
    inputs="self.first(x), memory, memory",
    scores="s = q @ k.mT / q.shape[-1] ** 0.5 + mask * -1e9 + padding * -1e9",
    out=OUT
    + """
for layer in self.other:
    o = layer(o)
o = x + o
o = o + self.down(self.up(o).relu())
""",
)


def test_a_whole_layer_is_called_in_each_form_but_compared_with_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its weights are more than those of one attention, and each of them has an effect."""

    def compare(*given: object) -> None:
        raise AssertionError("no contract has a role for all of its weights")

    for name in ("find_exact", "find_mistakes", "find_scale"):
        monkeypatch.setattr(search, name, compare)
    found = bind(*open_class(LAYER, "Own"))
    assert isinstance(found, NotBound)
    assert "gave an output" in found.tried


def test_calls_that_return_the_same_count_as_one_way() -> None:
    """A mask that hides nothing is the same by any convention."""
    searched = BindingSearch(*open_class(LAYER, "Own"))
    assert next(searched.iter_matches(), None) is None
    outputs = [
        (probe.built, probe.batched, probe.seen.outputs[0].sum()) for probe in searched.probes
    ]
    assert len({(id(built), batched, float(total)) for built, batched, total in outputs}) == len(
        outputs
    )


def test_what_is_not_a_number_is_compared_with_no_contract(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As if a mask hid everything. Calls with such results are alike, too."""
    monkeypatch.setattr(search, "find_exact", None)
    searched = BindingSearch(*open_class(make(scores="s = q @ k.mT - torch.inf"), "Own"))
    assert next(searched.iter_matches(), None) is None
    [probe] = searched.probes[:1]
    assert not probe.seen.may_be_exact and probe.seen.is_like(probe.seen)
    assert not probe.has_effect("q.weight")


UNUSED = SEPARATE + "\nself.unused = nn.Linear(dim, 2 * dim)"


def test_a_tensor_without_an_effect_needs_no_role() -> None:
    assert isinstance(bind_source(make(init=UNUSED)), Binding)
    used = make(init=UNUSED, out=f"{OUT}\no = o * self.unused(x).sum()")
    assert isinstance(bind_source(used), NotBound)


def test_of_calls_that_differ_nothing_is_known() -> None:
    """What a class counts changes its output as well as a weight does."""
    counts = f"{OUT}\nself.calls += 1\no = o + (0.1 * self.calls if self.calls > {{}} else 0)"
    for first, steady in ((1, False), (99, True)):
        source = make(init=f"{UNUSED}\nself.calls = 0", out=counts.format(first))
        searched = BindingSearch(*open_class(source, "Own"))
        next(searched.iter_matches(), None)
        probe = searched.probes[0]
        assert probe.has_effect("q.weight") is steady
        assert not probe.has_effect("unused.weight")


# -------------------------------------------------------------------------------- intent

BUFFER = SEPARATE + "\nself.register_buffer('kept', {table})"


def is_meant_causal(source: str, name: str = "Own", call: tuple[str, ...] = ("x",)) -> bool:
    subject, _ = open_class(source, name)
    signature = Signature(name, (), tuple(SignatureParameter(each) for each in call))
    module = subject.construct(name, {"dim": 8, "heads": 2}, 0)
    return expects_causality(signature, module, module.describe_tensors())


@pytest.mark.parametrize(
    ("name", "meant"),
    [("CausalAttention", True), ("GPTAttention", True), ("SelfAttention", False)],
)
def test_a_name_may_say_that_later_tokens_are_hidden(name: str, meant: bool) -> None:
    assert is_meant_causal(make(name=name), name) is meant


@pytest.mark.parametrize(
    ("table", "meant"),
    [
        ("torch.tril(torch.ones(9, 9))", True),
        ("torch.triu(torch.ones(9, 9), diagonal=1)", True),
        ("torch.tril(torch.ones(9, 9)).bool().view(1, 1, 9, 9)", True),
        ("torch.full((9, 9), -torch.inf).triu(1)", True),
        ("torch.ones(9, 9)", False),
        ("torch.arange(81.0).view(9, 9)", False),
        ("torch.zeros(9)", False),
    ],
)
def test_a_triangle_that_is_kept_says_so_too(table: str, meant: bool) -> None:
    assert is_meant_causal(make(init=BUFFER.format(table=table))) is meant


def test_who_takes_a_mask_does_not_say_what_it_will_be() -> None:
    source = make(init=BUFFER.format(table="torch.tril(torch.ones(9, 9))"), call="x, mask=None")
    assert not is_meant_causal(source, call=("x", "mask"))


def test_a_forgotten_mask_of_a_class_that_keeps_a_triangle_is_a_mistake() -> None:
    init = BUFFER.format(table="torch.tril(torch.ones(7, 7))")
    for mask in ("", CAUSAL):
        found = bind_source(make(init=init, mask=mask))
        assert not isinstance(found, NotBound)
        assert "CAUSAL" in {c.name for c in found.contract.capabilities}
