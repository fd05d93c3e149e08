"""What models of today add is found in unknown classes: shared keys, positions, windows."""

import pytest

from headcheck.properties.binding.binding import Binding, NotBound
from headcheck.properties.binding.describe import describe_attention
from headcheck.properties.contracts.contract import Capability, Positions
from headcheck.properties.contracts.implied_capabilities import IMPLIED
from headcheck.properties.terms.case import Case
from tests.properties.binding.strangers import (
    CAUSAL,
    FUSED,
    PROJECT,
    SCORES,
    SEPARATE,
    THIRDS,
    bind_source,
    make,
)

pytestmark = pytest.mark.filterwarnings("ignore")
C = Capability

SHARED = "q, out = nn.Linear(dim, dim), nn.Linear(dim, dim)\nself.q, self.out = q, out\n" + (
    "width = dim // heads * kv_heads\n"
    "self.k, self.v, self.kv_heads = nn.Linear(dim, width), nn.Linear(dim, width), kv_heads"
)
SHARE = """
q, k, v = (
    layer(x).unflatten(-1, (count, -1)).transpose(1, 2)
    for layer, count in ((self.q, self.heads), (self.k, self.kv_heads), (self.v, self.kv_heads))
)
group = self.heads // self.kv_heads
k, v = {share}
"""
NEIGHBOURS = "(t.repeat_interleave(group, 1) for t in (k, v))"
TILED = "(t.repeat(1, group, 1, 1) for t in (k, v))"
FIRST = "(t[:, :1].expand(-1, self.heads, -1, -1) for t in (k, v))"
MULTI_QUERY = "self.q, self.out = nn.Linear(dim, dim), nn.Linear(dim, dim)\n" + (
    "self.kv = nn.Linear(dim, 2 * (dim // heads))"
)
ONE_HEAD = """
q = self.q(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
k, v = self.kv(x).unsqueeze(1).chunk(2, -1)
"""
TURN = """
def turn(t, base={base}):
    rates = base ** -(torch.arange(0, t.shape[-1], 2) / t.shape[-1])
    angles = torch.outer(torch.arange(t.shape[-2]), rates)
    {turned}

"""
HALVES = "\n    ".join(
    (
        "cos, sin = (f(angles).repeat(1, 2) for f in (torch.cos, torch.sin))",
        "a, b = t.chunk(2, -1)",
        "return t * cos + torch.cat([-b, a], -1) * sin",
    )
)
COMPLEX = "\n    ".join(
    (
        "pairs = torch.view_as_complex(t.unflatten(-1, (-1, 2)).contiguous())",
        "turns = torch.polar(torch.ones_like(angles), angles)",
        "return torch.view_as_real(pairs * turns).flatten(-2)",
    )
)
BOTH = PROJECT + "q, k = turn(q), turn(k)"
ALIBI = (
    SCORES
    + "\n"
    + (
        "n = torch.arange(x.shape[1])\n"
        "slopes = 2.0 ** (-8 * torch.arange(1, self.heads + 1) / self.heads)\n"
        "s = s - slopes[:, None, None] * (n[:, None] - n).abs()"
    )
)
NEAR = "n = torch.arange(x.shape[1])\nback = n[:, None] - n\n" + (
    "s = s.masked_fill((back < 0) | (back >= self.window), -torch.inf)"
)


def find(source: str) -> Binding:
    found = bind_source(source)
    assert not isinstance(found, NotBound), found
    return found


def share(how: str) -> str:
    return make(
        takes="dim, heads, kv_heads", init=SHARED, project=SHARE.format(share=how), mask=CAUSAL
    )


def turn(base: str = "1e4", turned: str = HALVES, project: str = BOTH, scores: str = SCORES) -> str:
    before = TURN.format(base=base, turned=turned)
    return make(before=before, project=project, scores=scores, mask=CAUSAL)


def test_heads_that_share_keys_are_found_by_the_argument_that_counts_them() -> None:
    contract = find(share(NEIGHBOURS)).contract
    assert contract.has(C.GROUPED, C.CAUSAL) and not contract.has(C.OWN_KEYS)
    assert [a.quantity for a in contract.arguments] == ["d_out", "heads", "kv_heads"]
    assert "shared keys and values" in describe_attention(contract)


def test_one_key_for_all_heads_is_found_without_an_argument() -> None:
    contract = find(make(init=MULTI_QUERY, project=ONE_HEAD)).contract
    assert contract.has(C.GROUPED, C.FULL)
    assert contract.fit(Case(heads=6)).kv_heads == 1


@pytest.mark.parametrize(
    ("shared", "name"), [(TILED, "keys_and_values_in_turn"), (FIRST, "one_key_head_for_all")]
)
def test_heads_that_do_not_share_with_neighbours_are_known_mistakes(shared: str, name: str) -> None:
    assert [mistake.name for mistake in find(share(shared)).mistakes] == [name]


@pytest.mark.parametrize(
    ("base", "turned", "kind", "found"),
    [
        ("1e4", HALVES, Positions.ROTARY, 1e4),
        ("5e5", COMPLEX, Positions.ROTARY_NEIGHBOURS, 5e5),
    ],
)
def test_rotary_positions_are_found_with_their_base_and_pairs(
    base: str, turned: str, kind: Positions, found: float
) -> None:
    contract = find(turn(base, turned)).contract
    assert (contract.positions, contract.rotary_base) == (kind, found)
    assert contract.has(C.POSITIONS, C.CAUSAL) and not contract.has(C.PLACELESS)
    assert contract.fit(Case(heads=2, head_dim=5)).head_dim % 2 == 0


@pytest.mark.parametrize(
    ("turned", "pairs"), [(HALVES, Positions.ROTARY), (COMPLEX, Positions.ROTARY_NEIGHBOURS)]
)
@pytest.mark.parametrize(
    ("project", "name"),
    [
        ("q = turn(q)", "only_queries_turned"),
        ("k = turn(k)", "only_keys_turned"),
        ("q, k, v = turn(q), turn(k), turn(v)", "values_turned_too"),
    ],
)
def test_a_mistake_beside_rotary_positions_is_found(
    turned: str, pairs: Positions, project: str, name: str
) -> None:
    found = find(turn(turned=turned, project=f"{PROJECT}{project}"))
    assert [m.name for m in found.mistakes] == [name]
    assert found.contract.positions is pairs


def test_positions_that_lower_scores_are_found() -> None:
    assert find(make(scores=ALIBI, mask=CAUSAL)).contract.positions is Positions.ALIBI


@pytest.mark.parametrize(("mask", "quantity"), [(NEAR, "window"), (CAUSAL, "context_length")])
def test_a_window_is_told_from_a_longest_length_by_what_it_hides(mask: str, quantity: str) -> None:
    source = make(
        takes="dim, heads, window",
        init=SEPARATE + "\nself.window = window",
        mask=mask,
    )
    contract = find(source).contract
    assert contract.arguments[-1].quantity == quantity
    assert contract.has(C.WINDOW) == (quantity == "window")


@pytest.mark.parametrize("source", [share(NEIGHBOURS), turn(), make(mask=CAUSAL)])
def test_what_is_found_has_the_capabilities_that_a_contract_file_would_have(source: str) -> None:
    """Of those that say which steps the equation has."""
    contract = find(source).contract
    steps = (C.GROUPED, C.OWN_KEYS, C.POSITIONS, C.PLACELESS, C.UNBIASED, C.DOT_PRODUCT)
    assert {c: contract.has(c) for c in steps} == {c: IMPLIED[c](contract) for c in steps}


def test_a_window_of_another_width_is_not_accused_and_longer_inputs_are_not_judged() -> None:
    """Whether so many tokens are seen with a token itself or besides it, no statement says."""
    source = make(
        takes="dim, heads, window",
        init=SEPARATE + "\nself.window = window",
        mask=NEAR.replace("back >=", "back >"),
    )
    found = find(source)
    assert not found.mistakes and not found.contract.has(C.WINDOW)
    assert any("longer than its window" in remark for remark in found.remarks)


def test_how_much_of_a_head_is_turned_is_all_of_it_where_an_argument_asks() -> None:
    turned = "q, k = (torch.cat([turn(t[..., :self.n]), t[..., self.n:]], -1) for t in (q, k))"
    source = make(
        takes="dim, heads, rotary_pct, rotary_emb_base",
        init=SEPARATE + "\nself.n = int(rotary_pct * (dim // heads))",
        before=TURN.format(base="1e4", turned=HALVES),
        project=PROJECT + turned,
        mask=CAUSAL,
    )
    assert find(source).contract.positions is Positions.ROTARY


LOCAL = make(
    name="LocalAttention",
    takes="dim, heads, window_size",
    init=FUSED + "\nself.window = window_size",
    project=THIRDS,
    mask="at = torch.arange(x.shape[1])\nfar = (at[:, None] - at).abs() > self.window // 2\n"
    "s = s.masked_fill(far, -torch.inf)",
)


def test_a_window_on_both_sides_is_not_judged() -> None:
    found = bind_source(LOCAL, "LocalAttention")
    assert isinstance(found, NotBound)
    assert found.tried == "a window on both sides of a token: not judged"
