"""Numbers that a class learns for pairs of positions and adds to scores, in windows or for all."""

import pytest

from headcheck.properties.binding.binding import NotBound
from headcheck.properties.contracts.contract import (
    Capability,
    Contract,
    OffsetOrder,
    OffsetStart,
    Positions,
)
from headcheck.properties.contracts.parameter_mapping import Packing
from headcheck.properties.terms.call_form import Polarity
from tests.properties.binding.strangers import SEPARATE, bind_source, make, mistaken, must_bind

pytestmark = pytest.mark.filterwarnings("ignore")
C = Capability
WINDOW = f"""
{SEPARATE}
height, width = {{sides}}
count = (2 * height - 1) * (2 * width - 1)
self.relative_position_bias_table = nn.Parameter(torch.zeros(count, heads))
y, x = torch.arange(height * width) // width, torch.arange(height * width) % width
down, right = y[:, None] - y, x[:, None] - x
self.register_buffer("index", {{index}})
"""
INDEX = "(down + height - 1) * (2 * width - 1) + right + width - 1"
ADDED = """
bias = self.relative_position_bias_table[self.index].movedim(-1, 0)
s = q @ k.mT / q.shape[-1] ** 0.5 + bias
"""


def make_window(index: str = INDEX, scores: str = ADDED, sides: str = "window_size") -> str:
    init = WINDOW.format(index=index, sides=sides)
    return make(takes="dim, window_size, heads", init=init, scores=scores)


def make_pairs(table: str, scores: str, length: str = "max_len") -> str:
    init = f"{SEPARATE}\nself.attn_bias = nn.Parameter(torch.zeros({table}))"
    return make(takes=f"dim, {length}, heads", init=init, scores=f"{SCALED} + {scores}")


SCALED = "n = k.shape[-2]; s = q @ k.mT / q.shape[-1] ** 0.5"


def list_quantities(contract: Contract) -> list[str]:
    return [argument.quantity for argument in contract.arguments]


@pytest.mark.parametrize(
    ("sides", "quantity"), [("window_size", "sides"), ("window_size, window_size", "side")]
)
def test_a_window_is_recognised_by_its_sides(sides: str, quantity: str) -> None:
    contract = must_bind(make_window(sides=sides)).contract
    assert contract.positions is Positions.WINDOWS and contract.has(C.RELATIVE)
    assert list_quantities(contract) == ["d_out", quantity, "heads"]
    assert not contract.has(C.ANY_LENGTH) and not contract.has(C.CONTEXT)


@pytest.mark.parametrize(
    ("index", "order", "start"),
    [
        (INDEX, "QUERY_MINUS_KEY", "SMALLEST"),
        (
            INDEX.replace("down", "-down").replace("right", "(-right)"),
            "KEY_MINUS_QUERY",
            "SMALLEST",
        ),
        (
            "(right + width - 1) * (2 * height - 1) + down + height - 1",
            "QUERY_MINUS_KEY_BY_COLUMNS",
            "SMALLEST",
        ),
        ("down * (2 * width - 1) + right", "QUERY_MINUS_KEY", "NOTHING"),
        ("(down + height - 1) * (2 * width - 1) + right", "QUERY_MINUS_KEY", "NO_COLUMNS"),
    ],
)
def test_a_table_may_be_in_any_order(index: str, order: str, start: str) -> None:
    contract = must_bind(make_window(index)).contract
    assert contract.offset_order is OffsetOrder[order]
    assert contract.offset_start is OffsetStart[start]


@pytest.mark.whole
def test_numbers_may_be_added_before_the_scale_but_not_instead_of_it() -> None:
    scaled = ADDED.replace("q @ k.mT / q.shape[-1] ** 0.5 + bias", "(q @ k.mT + bias) / 8 ** 0.5")
    scaled = scaled.replace("8", "q.shape[-1]")
    assert must_bind(make_window(scores=scaled)).contract.relative_scaled
    assert mistaken(make_window(scores=ADDED.replace(" / q.shape[-1] ** 0.5", ""))) == ["no_scale"]


MISTAKES = {
    "offsets_share_numbers": ("down + height - 1 + right + width - 1", ADDED),
    "relative_numbers_not_added": (INDEX, ADDED.replace(" + bias", "")),
    "relative_numbers_of_the_first_head": (INDEX, ADDED.replace("+ bias", "+ bias[:1]")),
    "relative_numbers_of_mixed_heads": (
        INDEX,
        ADDED.replace("movedim(-1, 0)", "reshape(k.shape[1], k.shape[2], -1)"),
    ),
}


@pytest.mark.whole
@pytest.mark.parametrize("name", [*MISTAKES])
def test_a_mistake_in_the_numbers_is_named(name: str) -> None:
    assert mistaken(make_window(*MISTAKES[name])) == [name]


@pytest.mark.whole
def test_the_sides_of_a_window_that_are_swapped_make_offsets_share_numbers() -> None:
    swapped = INDEX.replace("2 * width", "2 * height")
    assert mistaken(make_window(swapped, ADDED)) == ["offsets_share_numbers"]


@pytest.mark.parametrize(
    ("table", "scores", "packing"),
    [
        ("heads, max_len, max_len", "self.attn_bias[:, :n, :n]", Packing.PAIRED),
        ("1, heads, max_len, max_len", "self.attn_bias[:, :, :n, :n]", Packing.ONE_PAIRED),
    ],
)
def test_every_pair_may_have_a_number(table: str, scores: str, packing: Packing) -> None:
    contract = must_bind(make_pairs(table, scores)).contract
    assert contract.positions is Positions.PAIRS
    assert contract.mappings[-1].packing is packing
    assert contract.has(C.CONTEXT, C.ANY_LENGTH)


def test_a_table_that_is_not_cut_allows_one_length() -> None:
    own = make_pairs("heads, num_patches, num_patches", "self.attn_bias", "num_patches")
    contract = must_bind(own).contract
    assert list_quantities(contract) == ["d_out", "tokens", "heads"]
    assert not contract.has(C.ANY_LENGTH) and not contract.has(C.CONTEXT)


def test_a_sequence_is_a_window_of_one_row() -> None:
    rows = "torch.arange(n) - torch.arange(n)[:, None] + self.attn_bias.shape[1] // 2"
    own = make_pairs("heads, 2 * max_len - 1", f"self.attn_bias[:, {rows}]")
    contract = must_bind(own).contract
    assert contract.positions is Positions.WINDOWS and contract.mappings[-1].transposed
    assert contract.offset_order is OffsetOrder.KEY_MINUS_QUERY


@pytest.mark.whole
def test_a_kind_of_numbers_that_is_not_known_is_not_judged() -> None:
    clipped = "(torch.arange(n) - torch.arange(n)[:, None]).clamp(-4, 4) + 4"
    found = bind_source(make_pairs("9, heads", f"self.attn_bias[{clipped}].movedim(-1, 0)"))
    assert isinstance(found, NotBound)


@pytest.mark.parametrize(("inside", "claimed"), [("", True), (" / q.shape[-1] ** 0.5", False)])
def test_a_bias_of_a_call_may_hold_any_numbers(inside: str, claimed: bool) -> None:
    added = f"s = s if pair_bias is None else s + pair_bias{inside}"
    found = must_bind(make(call="x, pair_bias=None", mask=added))
    assert found.contract.call_form.mask.polarity is Polarity.ADDED
    assert found.contract.has(C.BIAS_MASK) is claimed
    assert any("before the scores are scaled" in each for each in found.remarks) is not claimed
