"""Weights are found however they are kept: fused, per head, stacked, transposed, under any name."""

import pytest

from headcheck.properties.binding.hypotheses import PROBE
from headcheck.properties.binding.layouts import (
    StoredTensor,
    add_biases,
    iter_layouts,
    iter_named_layouts,
    list_stored,
)
from headcheck.properties.contracts.parameter_mapping import Packing, ParameterMapping
from headcheck.properties.subject import TensorInfo
from tests.properties.binding.strangers import FUSED, make, must_bind

pytestmark = pytest.mark.filterwarnings("ignore")


def fused(split: str) -> str:
    return f"""
b, t, d = x.shape
n = self.heads
{split}
"""


def held(source: str) -> dict[str, tuple[tuple[str, ...], Packing, bool]]:
    """What each tensor of a class holds, and how."""
    mappings = must_bind(source).contract.mappings
    return {m.path: (m.holds, m.packing, m.transposed) for m in mappings}


# ------------------------------------------------------------------------ separate layers


def test_layers_with_their_usual_names_are_found() -> None:
    found = held(make())
    assert {path: holds for path, (holds, _, _) in found.items()} == {
        f"{layer}.{kind}": (f"{kind[0].replace('w', 'W')}_{letter}",)
        for layer, letter in zip(("q", "k", "v", "out"), "qkvo", strict=True)
        for kind in ("weight", "bias")
    }


@pytest.mark.parametrize("names", ["one two three four", "value key query output", "k v out q"])
def test_layers_are_known_by_what_they_do_whatever_they_are_called(names: str) -> None:
    q, k, v, o = (f"self.{name}" for name in names.split())
    init = f"{q}, {k}, {v}, {o} = (nn.Linear(dim, dim) for _ in range(4))"
    project = f"""
q, k, v = (
    layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in ({q}, {k}, {v})
)
"""
    out = f"o = {o}((w @ v).transpose(1, 2).flatten(2))"
    found = held(make(init=init, project=project, out=out))
    roles = [found[f"{name}.weight"][0] for name in names.split()]
    assert roles == [("W_q",), ("W_k",), ("W_v",), ("W_o",)]


@pytest.mark.parametrize("biased", ["", "q", "v", "out", "q v", "q k v"])
def test_biases_may_be_there_in_part(biased: str) -> None:
    layers = (f"nn.Linear(dim, dim, bias={n in biased.split()})" for n in ("q", "k", "v", "out"))
    found = held(make(init=f"self.q, self.k, self.v, self.out = {', '.join(layers)}"))
    assert {path for path in found if path.endswith("bias")} == {
        f"{name}.bias" for name in biased.split()
    }


def test_without_an_output_layer_nothing_is_taken_for_it() -> None:
    init = "self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))"
    found = held(make(init=init, out="o = (w @ v).transpose(1, 2).flatten(2)"))
    assert {holds for holds, _, _ in found.values()} == {
        (f"{kind}_{letter}",) for kind in "Wb" for letter in "qkv"
    }


def test_parameters_that_tokens_are_multiplied_by_are_transposed() -> None:
    init = "\n".join(f"self.{n} = nn.Parameter(torch.randn(dim, dim))" for n in ("r", "s", "t"))
    project = "q, k, v = ((x @ m).unsqueeze(1) for m in (self.r, self.s, self.t))"
    found = held(make(takes="dim", init=init, project=project, out="o = (w @ v)[:, 0]"))
    assert found == {
        path: ((f"W_{letter}",), Packing.ROWS, True)
        for path, letter in zip("rst", "qkv", strict=True)
    }


def test_tensors_that_are_not_registered_are_found() -> None:
    init = "self.kept = {n: torch.randn(dim, dim) for n in 'qkv'}"
    project = "q, k, v = ((x @ self.kept[n].to(x)).unsqueeze(1) for n in 'qkv')"
    found = held(make(takes="dim", init=init, project=project, out="o = (w @ v)[:, 0]"))
    assert set(found) == {"kept.q", "kept.k", "kept.v"}


def test_convolutions_of_one_token_are_layers() -> None:
    init = "self.q, self.k, self.v, self.out = (nn.Conv1d(dim, dim, 1) for _ in range(4))"
    project = """
q, k, v = (
    layer(x.mT).mT.unflatten(-1, (self.heads, -1)).transpose(1, 2)
    for layer in (self.q, self.k, self.v)
)
"""
    out = "o = self.out((w @ v).transpose(1, 2).flatten(2).mT).mT"
    found = held(make(init=init, project=project, out=out))
    assert found["q.weight"] == (("W_q",), Packing.CONVOLUTION, False)
    assert found["out.weight"] == (("W_o",), Packing.CONVOLUTION, False)


# --------------------------------------------------------------------------- fused layers


@pytest.mark.parametrize("order", ["qkv", "kqv", "qvk", "vqk", "kvq", "vkq"])
def test_a_layer_in_thirds_may_have_them_in_any_order(order: str) -> None:
    split = fused(
        f"{', '.join(order)} = "
        "(p.view(b, t, n, -1).transpose(1, 2) for p in self.qkv(x).chunk(3, -1))"
    )
    found = held(make(init=FUSED, project=split))
    assert found["qkv.weight"] == (tuple(f"W_{each}" for each in order), Packing.ROWS, False)
    assert found["qkv.bias"][0] == tuple(f"b_{each}" for each in order)


@pytest.mark.parametrize(
    ("split", "packing"),
    [
        ("self.qkv(x).view(b, t, n, -1).transpose(1, 2).chunk(3, -1)", Packing.HEADS),
        ("self.qkv(x).view(b, t, 3, -1, n).permute(2, 0, 4, 1, 3)", Packing.INTERLEAVED),
        ("self.qkv(x).view(b, t, 3, n, -1).permute(2, 0, 3, 1, 4)", Packing.ROWS),
    ],
)
def test_a_fused_layer_may_have_its_heads_in_any_order(split: str, packing: Packing) -> None:
    out = "o = self.out((w @ v).transpose(1, 2).flatten(2))"
    found = held(make(init=FUSED, project=fused(f"q, k, v = {split}"), out=out))
    assert found["qkv.weight"] == (("W_q", "W_k", "W_v"), packing, False)


def test_queries_may_have_a_layer_and_keys_and_values_another() -> None:
    init = "self.to_q, self.to_kv = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim)\n"
    init += "self.out = nn.Linear(dim, dim)"
    project = """
q, k, v = (
    p.unflatten(-1, (self.heads, -1)).transpose(1, 2)
    for p in (self.to_q(x), *self.to_kv(x).chunk(2, -1))
)
"""
    found = held(make(init=init, project=project))
    assert found["to_q.weight"][0] == ("W_q",)
    assert found["to_kv.weight"][0] == ("W_k", "W_v")


# ------------------------------------------------------------------------------- per head


def test_a_list_of_heads_is_one_layer_with_a_field_for_the_number() -> None:
    before = """
class Head(nn.Module):
    def __init__(self, dim, size):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, size, bias=False) for _ in range(3))

    def forward(self, x):
        scores = self.q(x) @ self.k(x).mT / self.q.out_features ** 0.5
        return scores.softmax(-1) @ self.v(x)
"""
    init = "self.all = nn.ModuleList(Head(dim, dim // heads) for _ in range(heads))\n"
    init += "self.out = nn.Linear(dim, dim)"
    source = make(
        init=init,
        before=before,
        project="o = torch.cat([head(x) for head in self.all], -1)",
        scores="s = o",
        out="o = self.out(o)",
    )
    found = held(source)
    assert found["all.{head}.q.weight"] == (("W_q",), Packing.ROWS, False)


def test_heads_may_be_stacked_in_three_axes() -> None:
    init = """
size = dim // heads
self.Q, self.K, self.V = (nn.Parameter(torch.randn(heads, dim, size)) for _ in range(3))
self.O = nn.Parameter(torch.randn(heads, size, dim))
"""
    project = "q, k, v = (torch.einsum('btd,hde->bhte', x, m) for m in (self.Q, self.K, self.V))"
    out = "o = torch.einsum('bhte,hed->btd', w @ v, self.O)"
    found = held(make(init=init, project=project, out=out))
    assert found["Q"] == (("W_q",), Packing.STACKED, True)
    assert found["O"] == (("W_o",), Packing.STACKED, True)


# ---------------------------------------------------------------------------- what is tried


def tensors(**shapes: tuple[int, ...]) -> dict[str, TensorInfo]:
    return {
        path.replace("__", "."): TensorInfo("parameter", shape, "float64", "cpu", True)
        for path, shape in shapes.items()
    }


def test_what_names_suggest_is_tried_first() -> None:
    d = PROBE.d_out
    given = tensors(o__weight=(d, d), v__weight=(d, d), k__weight=(d, d), q__weight=(d, d))
    case = PROBE.__class__(d_in=d, heads=PROBE.heads, head_dim=PROBE.head_dim)
    first = next(iter_layouts(given, case))
    assert [m.path for m in first] == ["q.weight", "k.weight", "v.weight", "o.weight"]
    assert first == next(iter_named_layouts(given, case))
    assert len(list(iter_named_layouts(given, case))) < len(list(iter_layouts(given, case)))


def test_shapes_that_cannot_be_attention_have_no_layout() -> None:
    assert list(iter_layouts(tensors(w=(3, 5), u=(5, 3)), PROBE)) == []
    assert list(iter_layouts({}, PROBE)) == []


def test_only_what_every_head_has_once_is_one_tensor_for_each() -> None:
    h, size = PROBE.heads, PROBE.head_dim
    per_head = {f"q__{n}__weight": (size, PROBE.d_in) for n in range(h)}
    assert [t.path for t in list_stored(tensors(**per_head), PROBE)] == ["q.{head}.weight"]
    more = {**per_head, f"q__{h}__weight": (size, PROBE.d_in)}
    assert len(list_stored(tensors(**more), PROBE)) == h + 1
    unlike = {**per_head, "q__1__weight": (size, 3)}
    assert len(list_stored(tensors(**unlike), PROBE)) == h


def test_the_bias_of_a_norm_is_no_bias_of_a_layer() -> None:
    """Once a class with norms of heads and an option for biases had two gains of queries."""
    layout = (
        ParameterMapping("q_norm.weight", ("gain_q",)),
        ParameterMapping("q_norm.bias", ("shift_q",)),
    )
    stored = [StoredTensor("q_norm.weight", (4,), False), StoredTensor("q_norm.bias", (4,), False)]
    assert add_biases(layout, stored) == layout
