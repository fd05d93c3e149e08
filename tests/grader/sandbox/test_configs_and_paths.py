"""What constructors are given as configs, and what tensors a module holds without saying so."""

import copy
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import nn

from headcheck.grader.sandbox.worker.attribute_paths import (
    MAX_DEPTH,
    MAX_UNREGISTERED,
    describe_registered,
    describe_unregistered,
    exchange_layer,
    find,
    keep_zero,
    silence,
)
from headcheck.grader.sandbox.worker.configs import Config, StrictConfig, make_config

# ------------------------------------------------------------------------------- configs


@pytest.mark.parametrize("given", ["by name", "strictly", "by class"])
def test_a_value_is_an_attribute_whatever_the_style(given: str) -> None:
    assert make_config({"dim": 8}, given, {}).dim == 8


@pytest.mark.parametrize("given", ["by name", "strictly"])
def test_a_value_is_an_item_and_may_be_unpacked(given: str) -> None:
    config = make_config({"dim": 8}, given, {})
    assert config["dim"] == config.get("dim", 1) == 8
    assert "dim" in config and "heads" not in config
    assert dict(**config) == {"dim": 8}


@pytest.mark.parametrize("given", ["by name", "by class"])
def test_a_copy_has_the_same_values_and_defaults(given: str) -> None:
    config = copy.deepcopy(make_config({"dim": 8}, given, {"theta": 1e4}))
    assert (config.dim, config.theta) == (8, 1e4)
    with pytest.raises(AttributeError):
        config.heads  # noqa: B018  # reading is what is tested


def test_what_is_missing_has_a_default_where_one_is_given() -> None:
    config = Config(dim=8)
    assert config.get("heads", 3) == 3 and config.get("heads") is None
    with pytest.raises(AttributeError, match="has no attribute 'heads'"):
        _ = config.heads
    with pytest.raises(KeyError, match="'heads'"):
        config["heads"]


def test_a_strict_config_tells_what_it_is_asked_for_even_if_there_is_a_default() -> None:
    strict = StrictConfig(dim=8)
    assert strict.get("dim", 1) == 8
    with pytest.raises(AttributeError, match="has no attribute 'heads'"):
        strict.get("heads", 3)


def test_a_strict_config_may_lack_what_is_known_to_be_absent() -> None:
    strict = StrictConfig(dim=8, blorp=None)
    assert strict.get("blorp", 3) == 3
    assert "blorp" not in strict and set(strict.keys()) == {"dim"}
    assert not hasattr(strict, "blorp")


def test_values_by_class_are_no_attributes_of_the_instance() -> None:
    config = make_config({"dim": 8}, "by class", {})
    assert "dim" not in vars(config) and config.dim == 8


@pytest.mark.parametrize("given", ["by name", "by class"])
def test_what_the_own_config_has_by_default_is_an_attribute_only(given: str) -> None:
    config = make_config({"dim": 8}, given, {"flash": True, "dim": 3})
    assert config.flash is True and config.dim == 8
    assert "flash" not in config and config.get("flash") is None
    with pytest.raises(AttributeError, match="'Config' object has no attribute 'heads'"):
        _ = config.heads


def test_a_strict_config_has_no_defaults() -> None:
    assert not hasattr(make_config({"dim": 8}, "strictly", {"flash": True}), "flash")


def test_what_the_own_config_computes_is_known_even_to_a_strict_one() -> None:
    config = make_config({"dim": 8}, "strictly", {"flash": True}, {"scale": 0.5})
    assert config.scale == 0.5 and not hasattr(config, "flash")


# ------------------------------------------------------------------- unregistered tensors

TENSOR = torch.ones(2, 3)


class Holder(nn.Module):
    """A module with these attributes."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__()
        for name, value in attributes.items():
            setattr(self, name, value)


def shapes(module: object) -> Mapping[str, tuple[int, ...]]:
    return {path: info.shape for path, info in describe_unregistered(module).items()}


@pytest.mark.parametrize(
    ("value", "paths"),
    [
        (TENSOR, ["held"]),
        ([TENSOR, TENSOR], ["held.0", "held.1"]),
        ({"q": TENSOR}, ["held.q"]),
        ({"q": [TENSOR, {"k": TENSOR}]}, ["held.q.0", "held.q.1.k"]),
        ((TENSOR,), ["held.0"]),
        ([nn.Linear(3, 2)], ["held.0.weight", "held.0.bias"]),
    ],
)
def test_tensors_are_found_in_attributes_lists_and_dictionaries(
    value: object, paths: list[str]
) -> None:
    module = Holder(held=value)
    assert list(shapes(module)) == paths
    assert all(find(module, path) is not None for path in paths), "a path leads to its tensor"
    assert {info.kind for info in describe_unregistered(module).values()} == {"unregistered"}


def test_tensors_of_parts_are_found_under_the_path_of_the_part() -> None:
    module = Holder(part=Holder(held=TENSOR))
    assert shapes(module) == {
        "part.held": (
            2,
            3,
        )
    }


def test_what_is_registered_is_not_listed_again() -> None:
    module = Holder(layer=nn.Linear(3, 2), weight=nn.Parameter(TENSOR.clone()))
    module.register_buffer("table", TENSOR)
    assert shapes(module) == {}
    assert set(describe_registered(module)) == {"layer.weight", "layer.bias", "weight", "table"}


@pytest.mark.parametrize("value", [torch.ones(2, dtype=torch.int64), 3, "text", None, object()])
def test_what_is_no_tensor_of_numbers_with_a_point_is_passed_over(value: object) -> None:
    assert shapes(Holder(held=value)) == {}


def test_no_deeper_than_so_many_levels_are_searched() -> None:
    value: object = TENSOR
    for _ in range(MAX_DEPTH):
        value = [value]
    assert len(shapes(Holder(held=value))) == 1
    assert shapes(Holder(held=[value])) == {}


def test_no_more_than_so_many_are_listed() -> None:
    assert len(shapes(Holder(held=[TENSOR] * (2 * MAX_UNREGISTERED)))) == MAX_UNREGISTERED


def test_a_list_that_holds_itself_ends_somewhere() -> None:
    loop: list[object] = [TENSOR]
    loop.append(loop)
    assert 1 <= len(shapes(Holder(held=loop))) <= MAX_DEPTH


def test_private_attributes_are_passed_over() -> None:
    assert shapes(Holder(_hidden=TENSOR)) == {}


class Hostile(nn.Module):
    """Raises when it is asked for anything of its own."""

    @property
    def shape(self) -> object:
        raise RuntimeError("not to be read")

    def named_parameters(self, *given: Any, **options: Any) -> Any:
        raise RuntimeError("not to be called")


def test_properties_and_overridden_methods_are_not_asked() -> None:
    module = Hostile()
    module.held = TENSOR
    module.layer = nn.Linear(3, 2)
    assert shapes(module) == {
        "held": (
            2,
            3,
        )
    }
    assert set(describe_registered(module)) == {"layer.weight", "layer.bias"}


def test_what_is_no_module_holds_nothing() -> None:
    assert describe_unregistered(TENSOR) == describe_unregistered(len) == {}


# ----------------------------------------------------------------- layers in others' places


class Projected(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([nn.Linear(2, 3)])
        self.bare = nn.Parameter(torch.zeros(2))

    @property
    def first(self) -> nn.Linear:
        layer = self.parts[0]
        assert isinstance(layer, nn.Linear)
        return layer


def test_a_layer_is_replaced_by_another_with_the_same_values_elsewhere() -> None:
    module = Projected()
    before = module.first
    exchange_layer(module, "parts.0.weight", torch.ones(3, 2))
    assert module.first is not before
    assert torch.equal(module.first.weight, torch.ones(3, 2))
    assert torch.equal(module.first.bias, before.bias)
    assert not torch.equal(before.weight, torch.ones(3, 2))


def test_what_is_held_by_no_part_is_written_where_it_is() -> None:
    module = Projected()
    bare, layer = module.bare, module.first
    exchange_layer(module, "bare", torch.ones(2))
    exchange_layer(module, "first.weight", torch.ones(3, 2))  # a property gives it
    assert module.bare is bare
    assert torch.equal(bare, torch.ones(2))
    assert module.first is layer
    assert torch.equal(layer.weight, torch.ones(3, 2))


# --------------------------------------------------------------------- what is silenced


def step(layer: nn.Linear) -> None:
    """Train it by one step, so that all that gets a gradient moves."""
    layer(torch.ones(3, layer.in_features)).sum().backward()
    torch.optim.SGD(layer.parameters(), lr=1.0).step()


def test_what_is_silenced_is_zero_and_training_leaves_it_so() -> None:
    layer = nn.Linear(2, 2)
    before = layer.weight.clone()
    silence(layer, ["bias", "nothing.there"])
    step(layer)
    assert layer.bias.tolist() == [0.0, 0.0]
    assert not torch.equal(layer.weight, before)


def test_what_is_given_other_numbers_is_trained_as_any() -> None:
    layer = nn.Linear(2, 2)
    silence(layer, ["bias"])
    layer.bias.data.fill_(1.0)
    step(layer)
    assert layer.bias.tolist() == [-2.0, -2.0]


def test_a_copy_is_silenced_anew_only_where_it_is_zero() -> None:
    layers = nn.Linear(2, 2), nn.Linear(2, 2)
    silence(layers[0], ["bias"])
    layers[1].bias.data.fill_(1.0)
    copies = [copy.deepcopy(layer) for layer in layers]
    for each in copies:
        keep_zero(each, ["bias"])
        step(each)
    assert [each.bias.tolist() for each in copies] == [[0.0, 0.0], [-2.0, -2.0]]
