"""Which defaults a submission's own config class gives to the fields that nobody states."""

import pytest

from headcheck.grader.reading.cells import read_source
from headcheck.grader.reading.config_fields import (
    find_config_class,
    find_config_defaults,
    list_computed_fields,
    list_options,
)
from headcheck.grader.reading.symbol_table import build_symbol_table

NAMES = frozenset({"n_embd", "n_head", "block_size"})
DATACLASS = """
@dataclass
class GPTConfig:
    n_embd: int = 64
    n_head: int = 4
    n_layer: int = 2
    dropout: float = 0.1
    flash: bool = True
    kind: str = "gpt"
    scale: float | None = None
    device: str = choose()
    fields: list = field(default_factory=list)
"""
BY_CONSTRUCTOR = """
class Config:
    def __init__(self, n_embd, n_head=2, flash=False, *, eps=1e-5, rope):
        self.n_embd = n_embd
"""
CONSTANTS = """
class Config:
    n_embd, other = 8, 9
    n_head = 2
    block_size = 4
    flash = True
"""


def find(source: str, names: frozenset[str] = NAMES) -> dict[str, object]:
    return dict(find_config_defaults(build_symbol_table(read_source(source.encode(), "py")), names))


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (DATACLASS, {"dropout": 0.1, "flash": True, "kind": "gpt", "scale": None}),
        (BY_CONSTRUCTOR, {"flash": False, "eps": 1e-5}),
        (CONSTANTS, {"flash": True}),
    ],
)
def test_literals_that_are_no_sizes_are_found(source: str, found: dict[str, object]) -> None:
    assert find(source) == found


def test_integers_about_positions_are_no_sizes() -> None:
    places = "    alibi_bias_max: int = 8\n    layer_idx: int = 2\n    num_buckets: int = 32\n"
    found = find(f"{DATACLASS}{places}    kv_rank: int = 6\n")
    assert found.items() >= {"alibi_bias_max": 8, "layer_idx": 2, "num_buckets": 32}.items()
    assert "kv_rank" not in found


def test_the_class_that_shares_most_fields_is_the_config() -> None:
    other = "class Other:\n    n_embd = 1\n    n_head = 2\n    flash = False\n"
    assert find(other + DATACLASS + "    block_size: int = 8\n")["flash"] is True


@pytest.mark.parametrize(
    "source",
    ["", "class Data:\n    n_head = 4\n    flash = True\n", "n_embd = n_head = 1\nflash = True\n"],
)
def test_a_class_that_shares_one_field_is_no_config(source: str) -> None:
    assert find(source) == {}


def test_one_shared_field_is_enough_where_only_one_is_named() -> None:
    source = "class Config:\n    width = 4\n    flash = True\n"
    assert find(source, frozenset({"width"})) == {"flash": True}


COMPUTED = """
@dataclass
class Config:
    n_embd: int = 64
    n_head: int = 4
    scale: float = field(init=False)

    def __post_init__(self):
        self.scale = (self.n_embd // self.n_head) ** -0.5
        self.n_head += 0

    @property
    def head_dim(self):
        return self.n_embd // self.n_head

    def describe(self):
        self.text = "not made with it"
"""


def test_what_a_config_computes_is_listed() -> None:
    symbols = build_symbol_table(read_source(COMPUTED.encode(), "py"))
    found = find_config_class(symbols, NAMES)
    assert found is not None and found.name == "Config"
    assert list_computed_fields(found) == ["head_dim", "scale", "n_head"]


READING = """
class Config:
    n_embd: int = 64
    window: Optional[int] = None
    sinks: bool = False
    flash: bool = True
    unread: bool = False


class Attention(nn.Module):
    def __init__(self, config: "Config"):
        self.window, self.flash, self.embed = config.window, config.flash, config.n_embd
        self.config = config

    def forward(self, x):
        return x * self.config.sinks
"""


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (READING, [("window", None), ("sinks", False)]),
        (READING.replace(': "Config"', ""), []),
        (READING.replace('"Config"', "Other"), []),
    ],
)
def test_fields_that_are_read_and_off_by_default_are_options(
    source: str, found: list[tuple[str, object]]
) -> None:
    symbols = build_symbol_table(read_source(source.encode(), "py"))
    [site] = symbols.definitions["Attention"]
    assert [(p.name, p.default) for p in list_options(symbols, site)] == found


def test_a_class_that_shares_no_field_is_no_config() -> None:
    symbols = build_symbol_table(read_source(b"class Other:\n    size: int = 3\n", "py"))
    assert find_config_class(symbols, NAMES) is None
