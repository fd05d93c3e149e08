"""A module is called in its own form by whoever calls it, and answers in the usual one."""

import copy
import pickle
from dataclasses import asdict
from typing import Any

import pytest
import torch
from msgspec import json
from torch import Tensor, nn

from headcheck.grader.sandbox.worker.call_hooks import CallHooks
from headcheck.properties.subject import CallOptions
from headcheck.properties.terms.call_form import (
    USUAL,
    CallForm,
    MaskConvention,
    Polarity,
    TokenAxes,
)
from tests.grader.sandbox.runtimes import make_subject

B, T, D = 2, 3, 4
X, Y = torch.arange(24.0).view(B, T, D), -torch.ones(B, 5, D)
KEEP = torch.ones(T, T).tril().bool()


class Recorder(nn.Module):
    """Keeps what it was called with; gives what it was told to."""

    def __init__(self, result: Any = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.result = result
        self.given: tuple[Any, ...] = ()

    def forward(self, *given: Any) -> Any:
        self.given = given
        return given[0] * self.weight if self.result is None else self.result


def describe(form: CallForm) -> Any:
    """The form of calls with two heads as it is sent; the usual form is not sent otherwise."""
    usual = asdict(form)
    del usual["is_lazy"], usual["wide_output"]
    return form.to_meta(2) or {**usual, "heads": 2}


def attach_sent(module: Any, form: object) -> Any:
    """Attach a form as it arrives in the worker."""
    assert form is not None
    CallHooks(**json.decode(json.encode(form))).attach(module)
    return module


def attach(module: Any, inputs: tuple[str, ...] = ("x",), **others: Any) -> Any:
    return attach_sent(module, describe(CallForm(inputs, **others)))


def attached(inputs: tuple[str, ...] = ("x",), result: Any = None, **others: Any) -> Any:
    return attach(Recorder(result), inputs, **others)


# -------------------------------------------------------------------------------- inputs


def test_the_usual_form_needs_no_hooks() -> None:
    assert USUAL.to_meta(1) is None
    assert CallForm(("mask", "x")).to_meta(1) is not None


@pytest.mark.parametrize(
    ("inputs", "given"),
    [
        (("x",), [X]),
        (("query", "key", "value"), [X, X, X]),
        (("query", "context"), [X, X]),
    ],
)
def test_a_sequence_that_attends_to_itself_is_all_inputs(
    inputs: tuple[str, ...], given: list[Tensor]
) -> None:
    module = attached(inputs)
    module(X)
    assert len(module.given) == len(given) and all(each is X for each in module.given)


def test_several_sequences_are_given_in_the_order_of_the_module() -> None:
    module, z = attached(("value", "key", "query")), Y + 1
    module(X, Y, z, apart=3)
    assert all(each is wanted for each, wanted in zip(module.given, (z, Y, X), strict=True))
    cross = attached(("context", "query"))
    cross(X, Y, apart=2)
    assert cross.given[0] is Y and cross.given[1] is X


def test_of_two_sequences_the_second_has_keys_and_values() -> None:
    module = attached(("query", "key", "value"))
    module(X, Y, apart=2)
    assert module.given[1] is Y and module.given[2] is Y


def test_a_context_that_queries_join_is_empty_for_a_sequence_alone() -> None:
    module = attached(("query", "context"), joins_queries=True)
    module(X)
    assert torch.equal(module.given[0], X) and module.given[1].shape == (B, 0, D)
    module(X, Y, apart=2)
    assert torch.equal(module.given[1], Y)


@pytest.mark.parametrize(("batch", "frames"), [(1, 1), (2, 2), (3, 1), (6, 2)])
def test_frames_are_sequences_of_the_usual_batch(batch: int, frames: int) -> None:
    x = torch.arange(12.0 * batch).view(batch, T, D)
    module = attached(axes=TokenAxes.FRAMES)
    assert torch.equal(module(x), x)
    assert module.given[0].shape == (batch // frames, frames, T, D)


def test_tokens_may_come_first_and_so_come_back() -> None:
    module = attached(axes="tokens batch width")
    assert torch.equal(module(X), X)
    assert module.given[0].shape == (T, B, D)


# --------------------------------------------------------------------------------- masks


def mask_given(keep: Tensor | None, **convention: Any) -> Any:
    module = attached(("x", "mask"), mask=MaskConvention(**convention))
    module(X, *(() if keep is None else (keep,)))
    return module.given[1] if len(module.given) > 1 else None


def test_a_mask_that_keeps_arrives_as_it_is() -> None:
    assert mask_given(KEEP) is KEEP
    assert mask_given(KEEP.float()).dtype is torch.float32


def test_a_mask_that_blocks_is_the_opposite() -> None:
    assert torch.equal(mask_given(KEEP, polarity=Polarity.BLOCK), ~KEEP)
    numbers = mask_given(KEEP, polarity=Polarity.BLOCK, dtype="float64")
    assert numbers.dtype is torch.float64 and torch.equal(numbers != 0, ~KEEP)


@pytest.mark.parametrize("fill", [-torch.inf, -1e9])
def test_a_mask_that_is_added_is_zero_where_something_is_kept(fill: float) -> None:
    added = mask_given(KEEP, polarity=Polarity.ADDED, fill=fill)
    assert added.dtype is X.dtype
    assert torch.equal(added == 0, KEEP) and bool((added[~KEEP] == fill).all())


@pytest.mark.parametrize(
    ("axes", "keys_only", "shape", "arrives"),
    [
        (4, False, (T, T), (B, 1, T, T)),
        (3, False, (T, T), (B, T, T)),
        (3, False, (B, 1, T, T), (B, T, T)),
        (2, False, (1, 1, T, T), (T, T)),
        (2, True, (B, 1, 1, T), (B, T)),
        (3, True, (B, 1, 1, T), (B, 1, T)),
        (4, True, (B, 1, 1, T), (B, 1, 1, T)),
        (None, False, (B, 4, T, T), (B, 4, T, T)),
    ],
)
def test_a_mask_has_as_many_axes_as_the_module_takes(
    axes: int | None, keys_only: bool, shape: tuple[int, ...], arrives: tuple[int, ...]
) -> None:
    keep = torch.ones(shape, dtype=torch.bool)
    assert tuple(mask_given(keep, axes=axes, keys_only=keys_only).shape) == arrives


def test_a_mask_that_is_required_hides_nothing_where_none_is_given() -> None:
    assert mask_given(None) is None
    everything = mask_given(None, required=True, axes=3)
    assert everything.shape == (B, T, T) and bool(everything.all())
    assert not bool(mask_given(None, required=True, polarity=Polarity.BLOCK).any())
    assert mask_given(None, required=True, axes=2, keys_only=True).shape == (B, T)


# ------------------------------------------------------------------------------- results

W = torch.ones(B, T, T)


@pytest.mark.parametrize(
    ("result", "form", "arranged"),
    [
        ((W, X), {"places": (1, 0)}, (X, W)),
        ((X, None), {"places": (0,)}, X),
        ({"a": W, "b": X}, {"places": (1, 0)}, (X, W)),
        ([X, W], {"places": (0,)}, X),
        ((X, None, W, "text"), {"places": ()}, (X, W)),
    ],
)
def test_results_are_taken_from_their_places(
    result: Any, form: dict[str, Any], arranged: Any
) -> None:
    got = attached(result=result, **form)(X)
    wanted = arranged if isinstance(arranged, tuple) else (arranged,)
    got = got if isinstance(got, tuple) else (got,)
    assert all(a is b for a, b in zip(got, wanted, strict=True))


def test_weights_of_one_head_get_an_axis_for_it() -> None:
    got = attached(result=(X, W), places=(0, 1), one_head=True)(X)
    assert got[1].shape == (B, 1, T, T)


@pytest.mark.parametrize("result", [(X,), (X, None), "text", None, X])
def test_results_that_are_not_as_announced_come_back_as_they_are(result: Any) -> None:
    module = attach(nn.Identity(), places=(0, 1))
    hooked = Recorder(result) if result is not None else nn.Identity()
    hooked = attach(hooked, places=(0, 1))
    got = hooked(X)
    assert got is result or (result is None and got is X)
    assert module(X) is X


# ------------------------------------------------------------------------- who calls it


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_is_called_in_the_same_form(duplicate: Any) -> None:
    again = duplicate(attached(("x", "mask"), mask=MaskConvention(Polarity.BLOCK)))
    again(X, KEEP)
    assert torch.equal(again.given[1], ~KEEP)


@pytest.mark.parametrize(
    ("axes", "shape"),
    [(TokenAxes.HEADS_FIRST, (B, 2, T, D // 2)), (TokenAxes.HEADS_SECOND, (B, T, 2, D // 2))],
)
@pytest.mark.parametrize("places", [None, (), (0, 1)])
def test_tokens_are_cut_into_heads_and_outputs_put_together(
    axes: TokenAxes, shape: tuple[int, ...], places: tuple[int, ...] | None
) -> None:
    weights = torch.ones(B, 2, T, T)

    def function(*given: Tensor) -> tuple[Tensor, ...]:
        assert [t.shape for t in given] == [shape, shape]
        return given[0] - given[1], weights

    form = CallForm(("query", "key"), axes=axes, places=places)
    output, second = CallHooks(**describe(form)).wrap(function)(X, 2 * X, apart=2)
    assert torch.equal(output, -X)
    assert torch.equal(second, weights)


def test_numbers_are_passed_behind_the_tensors() -> None:
    def function(query: Tensor, key: Tensor, times: int, plus: float) -> Tensor:
        return times * (query + key) + plus

    form = CallForm(("query", "key")).to_meta(1, {"times": 3, "plus": 0.5})
    assert form is not None
    assert torch.equal(CallHooks(**form).wrap(function)(X), 6 * X + 0.5)  # type: ignore[arg-type]


def test_functional_call_and_a_module_around_it_use_the_form() -> None:
    module = attached(axes="tokens batch width")
    called = torch.func.functional_call(module, {"weight": torch.tensor(2.0)}, (X,))
    assert torch.equal(called, 2 * X)
    assert torch.equal(nn.Sequential(module)(X), X)
    assert module.given[0].shape == (T, B, D)


@pytest.mark.parametrize("way", ["deepcopy", "pickle", "state_dict", "subclass"])
def test_objects_of_every_way_of_copying_are_called_in_the_form(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = CallForm(("query", "key", "value"), places=(0,)).to_meta(1)
    if way == "pickle":
        monkeypatch.setitem(globals(), "Mixer", Mixer)
    made = make_subject(Mixer=Mixer).construct("Mixer", {"scale": 2}, 0, form=form)
    for module in (made, made.copy(way), made.nest(), made.copy(way).nest()):
        [output] = module.forward([X], CallOptions()).outputs
        assert torch.equal(output, 6 * X)


class Mixer(nn.Module):
    """Adds three inputs, and returns something more."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(float(scale)))

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, None]:
        return self.scale * (query + key + value), None


def test_lazy_layers_take_their_width_from_a_first_call() -> None:
    class Lazy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.LazyLinear(3)

        def forward(self, x: Tensor) -> Tensor:
            projected: Tensor = self.layer(x)
            return projected

    module = attach_sent(Lazy(), CallForm(("x",), is_lazy=True).to_meta(1, width=5))
    assert module.layer.weight.shape == (3, 5)


def test_what_earlier_calls_left_is_forgotten_before_every_call() -> None:
    class Counting(nn.Module):
        calls = 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            return x * self.calls

        def reset(self) -> None:
            self.calls = 0

    module = attach_sent(Counting(), CallForm(("x",), reset="reset").to_meta(1))
    x = torch.ones(1, 2, 3)
    assert torch.equal(module(x), module(x))


@pytest.mark.parametrize("adds_tokens", [False, True])
def test_a_wide_output_is_cut(adds_tokens: bool) -> None:
    class Wide(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return (3 + adds_tokens) * x, x[..., :1]

    form = CallForm(("x",), wide_output=True, adds_tokens=adds_tokens, places=(0,))
    module = attach_sent(Wide(), form.to_meta(1, output_width=2))
    x = torch.randn(2, 4, 5)
    assert torch.allclose(module(x), 3 * x[..., :2])


def test_feed_forwards_are_silenced() -> None:
    form = CallForm(("x",), silenced=("1.weight", "1.bias")).to_meta(1)
    module = attach_sent(nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)), form)
    assert not module(torch.randn(2, 4, 3)).any()
    assert [name for name, _ in module.named_parameters()] == ["0.weight", "0.bias"]
