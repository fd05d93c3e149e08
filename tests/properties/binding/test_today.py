"""What models of today add is found by what it computes, and what is wrong about it is named."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from headcheck.properties.binding.binding import NotBound
from headcheck.properties.binding.describe import describe_attention
from headcheck.properties.contracts.contract import Capability, Norm, NormOver, Positions
from headcheck.properties.parts.norms import LENGTH_ALONE
from headcheck.properties.terms.case import Case, InputContent
from tests.properties.binding.strangers import bind_source, mistaken, must_bind
from tests.properties.binding.today import make_today

pytestmark = pytest.mark.filterwarnings("ignore")
C = Capability
Steps = dict[str, Any]

RIGHT: list[Steps] = [
    {"norm": "rms"},
    {"norm": "rms_float32"},
    {"norm": "rms_plus_one"},
    {"norm": "layer"},
    {"norm": "torch"},
    {"norm": "length"},
    {"norm": "rms", "own": "column"},
    {"norm": "length", "own": "column", "share": 1, "shared": True},
    {"norm": "rms_plus_one", "own": "one_column"},
    {"share": 0.5},
    {"share": 0.25},
    {"share": 0.75},
    {"sink": "flat"},
    {"sink": "column"},
    {"sink": "whole"},
    {"gate": "numbers"},
    {"gate": "with_bias"},
    {"gate": "heads"},
    {"gate": "heads_with_bias"},
    {"out": "axes"},
    {"projections": "axes"},
    {"projections": "axes", "out": "axes"},
    {"norm": "rms", "share": 1, "shared": True},
    {"norm": "rms_plus_one", "share": 1},
    {"norm": "layer", "share": 0.5},
    {"sink": "flat", "share": 1, "shared": True},
    {"norm": "rms", "gate": "heads", "share": 0.25, "shared": True},
    {"gate": "numbers", "norm": "rms", "out": "axes"},
    {"norm": "rms", "whole": True},
    {"norm": "layer", "whole": True},
    {"norm": "torch", "whole": True, "share": 1},
    {"norm": "rms_plus_one", "whole": True, "shared": True},
    {"norm": "rms_float32", "whole": True, "share": 1, "shared": True},
    {"norm": "layer", "whole": True, "gate": "heads", "shared": True},
    {"sink": "flat", "gate": "numbers"},
    {"sink": "whole", "share": 0.5},
    {"projections": "axes", "out": "axes", "norm": "rms", "share": 1},
]
KINDS = {"layer": Norm.LAYER, "": Norm.NONE}

EDITED = tomllib.loads(Path(__file__).with_name("today.toml").read_text("utf-8"))
WRONG, OTHER = ({entry["name"]: entry for entry in EDITED[kind]} for kind in ("wrong", "other"))


def edit(entry: dict[str, Any]) -> str:
    """The source of a right class, with edits that make it another one."""
    source = make_today(**entry["steps"])
    for right, other in entry["edits"]:
        assert right in source
        source = source.replace(right, other)
    return source


def describe(steps: Steps) -> str:
    return ",".join(f"{name}={value}" for name, value in steps.items())


@pytest.mark.sampled("steps", RIGHT, RIGHT[::2], ids=describe)
def test_a_right_class_is_bound_exactly_with_its_steps(steps: Steps) -> None:
    contract = must_bind(make_today(**steps)).contract
    norm, share = steps.get("norm", ""), steps.get("share", 0)
    assert contract.norm is KINDS.get(norm, Norm.RMS)
    assert contract.has(C.UNNORMED) == (norm == "")
    whole = NormOver.PROJECTION if steps.get("whole") else NormOver.HEAD
    assert contract.norm_over is whole
    assert contract.gains_by_head == bool(steps.get("own") or steps.get("whole"))
    assert contract.norm_gain_from == float(norm == "rms_plus_one")
    assert contract.positions is (Positions.ROTARY if share else Positions.NONE)
    assert contract.rotary_share == (share or 1)
    assert contract.has(C.SINKS) == ("sink" in steps)
    assert contract.has(C.GATED) == ("gate" in steps)
    assert contract.gates_heads == steps.get("gate", "").startswith("heads")
    assert contract.has(C.GROUPED) == ("shared" in steps)


@pytest.mark.parametrize(
    ("norm", "epsilon"),
    [("rms", 1e-6), ("layer", 1e-5), ("torch", 0.0), ("length", LENGTH_ALONE)],
)
def test_what_a_norm_adds_is_found(norm: str, epsilon: float) -> None:
    assert must_bind(make_today(norm=norm)).contract.norm_epsilon == epsilon


@pytest.mark.sampled("name", list(WRONG), list(WRONG)[::24])
def test_a_wrong_class_is_bound_with_its_mistake(name: str) -> None:
    assert WRONG[name]["mistake"] in mistaken(edit(WRONG[name]))


@pytest.mark.whole
@pytest.mark.parametrize("name", list(OTHER))
def test_another_gate_or_norm_is_not_accused(name: str) -> None:
    assert isinstance(bind_source(edit(OTHER[name])), NotBound)


def test_what_is_divided_by_its_length_is_not_zero() -> None:
    """F.normalize has no gradient that a root has at zero."""
    contract = must_bind(make_today(norm="length")).contract
    assert contract.fit(Case(content=InputContent.ZERO)).content is InputContent.NORMAL


def test_a_faster_way_that_is_off_does_not_excuse_a_mistake() -> None:
    source = make_today().replace("dim, heads)", "dim, heads, flash=False)")
    source = source.replace("self.heads,", "self.flash, self.heads,")
    source = source.replace("= heads,", "= flash, heads,")
    source = source.replace(" * self.width ** -0.5", " * (self.width ** -0.5 if self.flash else 1)")
    assert mistaken(source) == ["no_scale"]


def test_what_is_found_is_said() -> None:
    steps: Steps = {"norm": "rms", "share": 0.5, "sink": "flat", "gate": "heads"}
    said = describe_attention(must_bind(make_today(**steps)).contract)
    for part in ("a norm of queries and keys, ", "of half of each head", "sinks", "a gate"):
        assert part in said


def test_a_gate_of_an_unknown_kind_is_not_accused_of_a_law() -> None:
    """Its weights need not sum to one, so that is no law that it breaks."""
    source = make_today(gate="numbers").replace("x).sigmoid()", "x).sin().exp().log1p()")
    assert isinstance(bind_source(source), NotBound)


@pytest.mark.whole
def test_a_number_of_turned_coordinates_is_told_from_a_share() -> None:
    """Four of sixteen are a quarter, and of eight they are half."""
    source = make_today(share=0.5).replace("count = int(self.width * 0.5)", "count = 4")
    found = must_bind(source)
    assert found.contract.rotary_share == 0.25
    assert found.contract.fit(Case(head_dim=8)).head_dim == 16
    assert any("only for heads of 16" in remark for remark in found.remarks)
