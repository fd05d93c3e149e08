"""Canonical parameters are laid out as an implementation keeps them, and read back without loss."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from headcheck.properties.contracts.parameter_mapping import (
    BY_HEAD,
    COLUMNS,
    HeadSizes,
    Packing,
    ParameterMapping,
)
from headcheck.properties.parts import WEIGHTS
from headcheck.properties.parts.relative import SQUARE


@st.composite
def draw_sizes(draw: st.DrawFn) -> HeadSizes:
    """Sizes where keys and values have heads of their own, or are shared."""
    shared, group = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    return HeadSizes(draw(st.integers(1, 7)), shared * group, draw(st.integers(1, 5)), shared)


SIZES = draw_sizes()
OTHERS = (Packing.HEADWISE, Packing.BROADCAST, *SQUARE, *COLUMNS)
"""packings of what is no projection"""
LETTERS = st.permutations("qkv")


@st.composite
def mappings(draw: st.DrawFn) -> ParameterMapping:
    """Every packing with what it can hold: one projection, several, the output layer, biases."""
    packing = draw(st.sampled_from([p for p in Packing if p not in OTHERS]))
    letters = "".join(draw(LETTERS))[: draw(st.integers(1, 3))]
    if packing in BY_HEAD:
        letters = letters[:1]
    if packing is not Packing.HEADS and draw(st.booleans()):
        letters = "o"
    kind = draw(st.sampled_from("Wb"))
    path = "layer.weight"
    if packing is Packing.ROWS and draw(st.booleans()):
        path = "heads.{head}.weight"
    transposed = draw(st.booleans())
    return ParameterMapping(path, tuple(f"{kind}_{each}" for each in letters), transposed, packing)


@st.composite
def draw_stored(draw: st.DrawFn) -> tuple[ParameterMapping, HeadSizes]:
    """A mapping and sizes; where each head has a tensor with queries, it has keys of its own."""
    mapping, sizes = draw(mappings()), draw(SIZES)
    if "{head}" in mapping.path and not mapping.is_shared:
        sizes = replace(sizes, kv_heads=sizes.heads)
    return mapping, sizes


def draw_canonical(mapping: ParameterMapping, sizes: HeadSizes, seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    width = sizes.d_out if mapping.is_output else sizes.d_in
    matrix = mapping.holds[0].startswith("W_")
    rows = [WEIGHTS[name].heads(sizes) * sizes.head_dim for name in mapping.holds]
    shapes = [(each, width) if matrix else (each,) for each in rows]
    return [torch.randn(shape, generator=generator) for shape in shapes]


def list_heads(mapping: ParameterMapping, sizes: HeadSizes) -> list[int | None]:
    count = sizes.kv_heads if mapping.is_shared else sizes.heads
    return [*range(count)] if "{head}" in mapping.path else [None]


def read_back(mapping: ParameterMapping, stored: list[Tensor], sizes: HeadSizes) -> list[Tensor]:
    """As a contract does: the pieces of all heads, joined; an output bias is whole in each."""
    pieces = [mapping.unpack(tensor, sizes) for tensor in stored]
    if mapping.holds == ("b_o",):
        return pieces[0]
    axis = int(mapping.is_output)
    return [torch.cat(own, dim=axis) for own in zip(*pieces, strict=True)]


@given(draw_stored(), st.integers(0, 99))
def test_unpacking_undoes_packing(stored_as: tuple[ParameterMapping, HeadSizes], seed: int) -> None:
    mapping, sizes = stored_as
    canonical = draw_canonical(mapping, sizes, seed)
    stored = [mapping.pack(canonical, sizes, head) for head in list_heads(mapping, sizes)]
    again = read_back(mapping, stored, sizes)
    assert len(again) == len(canonical)
    for got, wanted in zip(again, canonical, strict=True):
        assert torch.equal(got, wanted)


def assert_stored(
    holds: str, packing: Packing, sizes: HeadSizes, canonical: Tensor, shape: tuple[int, ...]
) -> None:
    """It is stored in this shape, and read back as it was."""
    mapping = ParameterMapping("own", (holds,), False, packing)
    packed = mapping.pack([canonical], sizes, None)
    assert tuple(packed.shape) == mapping.compute_shape(sizes, None) == shape
    assert torch.equal(mapping.unpack(packed, sizes)[0], canonical)


@pytest.mark.parametrize(
    ("holds", "packing", "given_as", "stored_as"),
    [
        ("sinks", Packing.ROWS, (4,), (4,)),
        ("sinks", Packing.IMAGE_CONVOLUTION, (4,), (4, 1, 1)),
        ("sinks", Packing.BROADCAST, (4,), (1, 4, 1, 1)),
        ("W_gate", Packing.HEADWISE, (4, 5), (4, 5)),
        ("W_gate", Packing.ROWS, (12, 5), (12, 5)),
        ("b_gate", Packing.HEADWISE, (4,), (4,)),
        ("gain_k", Packing.ROWS, (3,), (3,)),
        ("shift_q", Packing.ROWS, (3,), (3,)),
    ],
)
def test_what_is_no_projection_is_stored_and_read_back(
    holds: str, packing: Packing, given_as: tuple[int, ...], stored_as: tuple[int, ...]
) -> None:
    sizes = HeadSizes(d_in=5, heads=4, head_dim=3, kv_heads=2)
    assert_stored(holds, packing, sizes, torch.randn(given_as), stored_as)


@pytest.mark.parametrize(
    ("holds", "packing", "given_as", "stored_as"),
    [
        ("gain_q", Packing.ROWS, (12,), (12,)),
        ("gain_k", Packing.ROWS, (6,), (6,)),
        ("shift_k", Packing.STACKED, (6,), (2, 3)),
        ("shift_q", Packing.COLUMN, (12,), (4, 1, 3)),
        ("gain_k", Packing.ONE_COLUMN, (6,), (1, 2, 1, 3)),
        ("gain_q", Packing.INTERLEAVED, (12,), (12,)),
    ],
)
def test_a_norm_over_all_heads_has_a_gain_for_each(
    holds: str, packing: Packing, given_as: tuple[int, ...], stored_as: tuple[int, ...]
) -> None:
    sizes = HeadSizes(d_in=5, heads=4, head_dim=3, kv_heads=2, gains_by_head=True)
    assert_stored(holds, packing, sizes, torch.randn(given_as), stored_as)


@given(draw_stored(), st.integers(0, 99))
def test_no_number_is_lost_or_doubled_and_shapes_are_as_told(
    stored_as: tuple[ParameterMapping, HeadSizes], seed: int
) -> None:
    mapping, sizes = stored_as
    canonical, heads = draw_canonical(mapping, sizes, seed), list_heads(mapping, sizes)
    pieces = [mapping.pack(canonical, sizes, head) for head in heads]
    for head, piece in zip(heads, pieces, strict=True):
        assert tuple(piece.shape) == mapping.compute_shape(sizes, head)
    packed = torch.cat([piece.flatten() for piece in pieces])
    whole = torch.cat([tensor.flatten() for tensor in canonical])
    if mapping.holds == ("b_o",):
        whole = whole.repeat(len(heads))
    assert torch.equal(packed.sort().values, whole.sort().values)


@given(draw_stored(), st.floats(-3, 3), st.integers(0, 99))
def test_packing_is_linear_and_so_maps_gradients(
    stored_as: tuple[ParameterMapping, HeadSizes], factor: float, seed: int
) -> None:
    mapping, sizes = stored_as
    one, other = (draw_canonical(mapping, sizes, seed + n) for n in (0, 1))
    mixed = [a + factor * b for a, b in zip(one, other, strict=True)]
    for head in list_heads(mapping, sizes):
        apart = mapping.pack(one, sizes, head) + factor * mapping.pack(other, sizes, head)
        torch.testing.assert_close(mapping.pack(mixed, sizes, head), apart)


@given(draw_stored(), st.integers(0, 99))
def test_a_gradient_of_what_is_stored_is_read_back_as_that_of_the_parameters(
    stored_as: tuple[ParameterMapping, HeadSizes], seed: int
) -> None:
    mapping, sizes = stored_as
    canonical = [t.requires_grad_() for t in draw_canonical(mapping, sizes, seed)]
    stored = [mapping.pack(canonical, sizes, head) for head in list_heads(mapping, sizes)]
    weights = [torch.arange(1.0, t.numel() + 1).view(t.shape) for t in stored]
    total = sum(((w * t).sum() for w, t in zip(weights, stored, strict=True)), torch.zeros(()))
    gradients = torch.autograd.grad(total, canonical)
    expected = read_back(mapping, weights, sizes)
    if mapping.holds == ("b_o",):
        expected = [torch.stack(weights).sum(0)]
    torch.testing.assert_close(gradients, expected)


@pytest.mark.parametrize(
    ("packing", "rows"),
    [
        (Packing.ROWS, "q0 q1 q2 q3 k0 k1 k2 k3"),
        (Packing.HEADS, "q0 q1 k0 k1 q2 q3 k2 k3"),
        (Packing.INTERLEAVED, "q0 q2 q1 q3 k0 k2 k1 k3"),
        (Packing.CONVOLUTION, "q0 q1 q2 q3 k0 k1 k2 k3"),
    ],
)
def test_rows_follow_one_another_as_the_packing_says(packing: Packing, rows: str) -> None:
    sizes = HeadSizes(d_in=1, heads=2, head_dim=2, kv_heads=2)
    q, k = torch.arange(4.0).view(4, 1), torch.arange(10.0, 14.0).view(4, 1)
    packed = ParameterMapping("w", ("W_q", "W_k"), packing=packing).pack([q, k], sizes, None)
    named = {"q": 0, "k": 10}
    assert packed.flatten().tolist() == [named[r[0]] + int(r[1]) for r in rows.split()]


@pytest.mark.parametrize(
    ("changes", "shape"),
    [
        ({"holds": ("W_q",)}, (6, 5)),
        ({"holds": ("W_q",), "transposed": True}, (5, 6)),
        ({"holds": ("W_q", "W_k", "W_v")}, (18, 5)),
        ({"holds": ("W_k", "W_v"), "packing": Packing.HEADS}, (12, 5)),
        ({"holds": ("W_q",), "packing": Packing.STACKED}, (2, 3, 5)),
        ({"holds": ("W_q",), "packing": Packing.STACKED, "transposed": True}, (2, 5, 3)),
        ({"holds": ("W_o",), "packing": Packing.STACKED}, (2, 6, 3)),
        ({"holds": ("W_o",), "packing": Packing.STACKED, "transposed": True}, (2, 3, 6)),
        ({"holds": ("b_q",), "packing": Packing.STACKED}, (2, 3)),
        ({"holds": ("b_o",), "packing": Packing.STACKED}, (6,)),
        ({"holds": ("W_q",), "packing": Packing.CONVOLUTION}, (6, 5, 1)),
        ({"holds": ("b_q",), "packing": Packing.CONVOLUTION}, (6,)),
        ({"holds": ("sinks",)}, (2,)),
        ({"holds": ("W_gate",)}, (6, 5)),
        ({"holds": ("W_q", "W_gate")}, (12, 5)),
    ],
)
def test_shapes_by_hand(changes: dict[str, Any], shape: tuple[int, ...]) -> None:
    sizes = HeadSizes(d_in=5, heads=2, head_dim=3, kv_heads=2)
    assert ParameterMapping("w", **changes).compute_shape(sizes, None) == shape


def test_shared_keys_have_fewer_rows() -> None:
    sizes = HeadSizes(d_in=5, heads=4, head_dim=3, kv_heads=2)
    rows = {("W_q",): 12, ("W_k",): 6, ("b_v",): 6, ("W_q", "W_k", "W_v"): 24, ("W_o",): 12}
    shapes = {held: ParameterMapping("w", held).compute_shape(sizes, None)[0] for held in rows}
    assert shapes == rows


def test_sinks_are_one_number_for_each_head() -> None:
    sizes, sinks = HeadSizes(d_in=5, heads=4, head_dim=3, kv_heads=2), torch.randn(4)
    whole, each = ParameterMapping("sinks", ("sinks",)), ParameterMapping("h.{head}.s", ("sinks",))
    assert torch.equal(whole.pack([sinks], sizes, None), sinks)
    assert [each.pack([sinks], sizes, head).item() for head in range(4)] == sinks.tolist()
    assert each.compute_shape(sizes, 2) == (1,)
    assert torch.equal(whole.unpack(sinks, sizes)[0], sinks)
    assert torch.equal(each.unpack(sinks[2:3], sizes)[0], sinks[2:3])


def test_one_of_several_heads_holds_its_rows_and_of_an_output_layer_its_columns() -> None:
    sizes = HeadSizes(d_in=5, heads=2, head_dim=3, kv_heads=2)
    q, o = torch.randn(6, 5), torch.randn(6, 6)
    own = ParameterMapping("heads.{head}.q", ("W_q",)).pack([q], sizes, 1)
    out = ParameterMapping("heads.{head}.o", ("W_o",)).pack([o], sizes, 1)
    assert torch.equal(own, q[3:]) and torch.equal(out, o[:, 3:])


def test_heads_that_share_lie_beside_their_keys_in_a_fused_layer() -> None:
    sizes = HeadSizes(d_in=1, heads=4, head_dim=1, kv_heads=2)
    fused = ParameterMapping("qkv.weight", ("W_q", "W_k", "W_v"), packing=Packing.HEADS)
    query, key, value = (torch.tensor(rows)[:, None] for rows in ([1, 2, 3, 4], [5, 6], [7, 8]))
    packed = fused.pack([query, key, value], sizes, None)
    assert packed.flatten().tolist() == [1, 2, 5, 7, 3, 4, 6, 8]


@pytest.mark.parametrize(
    ("holds", "packing", "shape"),
    [
        (("W_q", "W_qr"), Packing.HEADS, (21, 5)),
        (("W_down", "W_kr"), Packing.ROWS, (10, 5)),
        (("W_k", "W_v"), Packing.HEADS, (18, 6)),
        (("W_qr",), Packing.INTERLEAVED, (12, 5)),
        (("W_k",), Packing.STACKED, (3, 3, 6)),
    ],
)
def test_layers_of_latents_are_packed_as_code_has_them(
    holds: tuple[str, ...], packing: Packing, shape: tuple[int, ...]
) -> None:
    sizes = HeadSizes(d_in=5, heads=3, head_dim=3, kv_heads=3, d_latent=6, rope_dim=4)
    mapping = ParameterMapping("layer.weight", holds, packing=packing)
    rows = {"W_q": 9, "W_qr": 12, "W_down": 6, "W_kr": 4, "W_k": 9, "W_v": 9}
    columns = {name: each.columns(sizes) for name, each in WEIGHTS.items() if each.columns}
    drawn = [torch.randn(rows[name], columns[name]) for name in holds]
    stored = mapping.pack(drawn, sizes, None)
    assert tuple(stored.shape) == mapping.compute_shape(sizes, None) == shape
    assert all(map(torch.equal, mapping.unpack(stored, sizes), drawn))
    if holds == ("W_q", "W_qr"):  # for each head its own numbers, then those that are turned
        assert torch.equal(stored[7:10], drawn[0][3:6])
        assert torch.equal(stored[10:14], drawn[1][4:8])


@pytest.mark.parametrize(
    ("packing", "shape"),
    [
        (Packing.PAIRED, (2, 5, 5)),
        (Packing.ONE_PAIRED, (1, 2, 5, 5)),
        (Packing.GRID, (5, 5, 2)),
        (Packing.ROWS, (25, 2)),
    ],
)
def test_a_table_of_offsets_may_be_a_square(packing: Packing, shape: tuple[int, ...]) -> None:
    sizes = HeadSizes(d_in=4, heads=2, head_dim=2, kv_heads=2, buckets=25)
    assert_stored("W_rel", packing, sizes, torch.randn(25, 2), shape)
