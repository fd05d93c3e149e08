"""Calls through the host: what comes back, and what is seen on the way."""

import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headcheck.grader.sandbox.grader_side.subject import ChannelModule, InProcessChannel
from headcheck.grader.sandbox.operations import TAKE_PRINTS, PrintsReply
from headcheck.grader.sandbox.worker.runtime import WorkerRuntime
from headcheck.properties.subject import CallOptions
from tests.grader.sandbox.runtimes import Product, make_function, make_module

# ---------------------------------------------------------------------------- forward


def test_outputs_inputs_and_their_description_come_back() -> None:
    def call(x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        return x * mask, mask

    given = torch.ones(2, dtype=torch.float64), torch.tensor([True, False])
    returned = make_function(call).forward(list(given), CallOptions())
    assert [o.tolist() for o in returned.outputs] == [[1, 0], [True, False]]
    assert returned.dtypes == ("float64", "bool")
    assert returned.devices == ("cpu", "cpu")
    assert [t.tolist() for t in returned.inputs_after] == [[1, 1], [True, False]]
    assert returned.form == "a tuple of 2 (Tensor, Tensor)"


@pytest.mark.parametrize(
    ("result", "form"),
    [
        (None, "None (is there a return?)"),
        (1.5, "one float"),
        ([[1.0]], "a list of 1 (list)"),
        ((torch.ones(1), 3), "a tuple of 2 (Tensor, int)"),
        ({"output": torch.ones(1)}, "one dict"),
        ((), "a tuple of 0 ()"),
    ],
)
def test_non_tensor_result_is_described(result: object, form: str) -> None:
    returned = make_function(lambda x: result).forward([torch.ones(1)], CallOptions())
    assert returned.outputs == ()
    assert returned.form == form


@pytest.mark.parametrize(
    "result",
    [
        torch.ones(2, 3).T,
        torch.ones(1).expand(4),
        torch.ones(2, requires_grad=True) * 2,
        nn.Parameter(torch.ones(2)),
        torch.eye(2).to_sparse(),
        torch.ones(2, dtype=torch.complex64).conj().imag,
        torch.tensor(1.0),
        torch.empty(0, 3),
    ],
    ids=[
        "transposed",
        "expanded",
        "graph",
        "parameter",
        "sparse",
        "negated lazily",
        "0-d",
        "empty",
    ],
)
def test_outputs_of_every_layout_arrive_as_numbers(result: Tensor) -> None:
    [output] = make_function(lambda x: result).forward([torch.ones(1)], CallOptions()).outputs
    assert torch.equal(output, result.detach().to_dense())
    assert type(output) is Tensor


def test_changed_input_is_detected_and_the_original_stays() -> None:
    x = torch.ones(2)
    returned = make_function(lambda x: x.mul_(3)).forward([x], CallOptions())
    assert returned.inputs_after[0].tolist() == [3, 3]
    assert x.tolist() == [1, 1]


@pytest.mark.parametrize("memory", ["contiguous", "transposed", "expanded"])
def test_the_memory_layout_changes_no_number(memory: str) -> None:
    seen: list[Tensor] = []
    x = torch.arange(24.0).reshape(2, 3, 4)
    if memory == "expanded":
        x = x[:1].expand_as(x)

    def call(x: Tensor) -> Tensor:
        seen.append(x)
        return x

    make_function(call).forward([x], CallOptions(memory=memory))
    assert torch.equal(seen[0], x)
    assert seen[0].is_contiguous() is (memory == "contiguous")
    assert (seen[0].stride()[0] == 0) is (memory == "expanded")


def test_training_and_evaluation_are_set_before_the_call() -> None:
    module = make_module(lambda: nn.Dropout(0.5))
    x = torch.ones(64)
    assert torch.equal(module.forward([x], CallOptions()).outputs[0], x)
    returned = module.forward([x], CallOptions(training=True, seed=1))
    assert not torch.equal(returned.outputs[0], x)
    assert returned.training_after
    assert torch.equal(module.forward([x], CallOptions()).outputs[0], x)


def test_changed_training_flag_is_detected() -> None:
    class Switch(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            self.train(not self.training)
            return x

    assert make_module(Switch).forward([torch.ones(1)], CallOptions()).training_after


@pytest.mark.parametrize(
    ("grad", "recorded", "inference"),
    [("no_grad", False, False), ("grad", True, False), ("inference", False, True)],
)
def test_gradients_are_recorded_when_asked_for(grad: str, recorded: bool, inference: bool) -> None:
    def call(x: Tensor) -> Tensor:
        return torch.tensor([torch.is_grad_enabled(), torch.is_inference_mode_enabled()])

    [output] = make_function(call).forward([torch.ones(1)], CallOptions(grad=grad)).outputs
    assert output.tolist() == [recorded, inference]


def test_prints_are_logged_until_they_are_taken(capfd: pytest.CaptureFixture[str]) -> None:
    def call(x: Tensor) -> Tensor:
        sys.stdout.write("hello")
        sys.stderr.write("error")
        sys.stdout.flush()
        return x

    module = make_function(call)
    for _ in range(2):
        module.forward([torch.ones(1)], CallOptions())
    assert isinstance(module, ChannelModule)
    taken = module.subject.ask(TAKE_PRINTS, {})[0]
    assert taken == PrintsReply("hello" * 2, 10)
    assert module.subject.ask(TAKE_PRINTS, {})[0] == PrintsReply("", 0)
    assert capfd.readouterr() == ("", "")


def test_attention_functions_of_torch_are_watched_when_asked() -> None:
    def call(x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(x, x, x)

    x = torch.ones(1, 2, 3)
    assert make_function(call).forward([x], CallOptions()).called == ()
    called = make_function(call).forward([x], CallOptions(watched=True)).called
    assert called == ("scaled_dot_product_attention",)
    assert (
        make_function(lambda x: x.softmax(-1)).forward([x], CallOptions(watched=True)).called == ()
    )


def test_overwritten_result_is_detected() -> None:
    kept = torch.zeros(2)

    def call(x: Tensor) -> Tensor:
        return kept.copy_(x)

    module = make_function(call)
    first = module.forward([torch.ones(2)], CallOptions())
    assert not first.earlier_result_changed
    assert not module.forward([torch.ones(2)], CallOptions()).earlier_result_changed
    assert module.forward([torch.zeros(2)], CallOptions()).earlier_result_changed
    assert first.outputs[0].tolist() == [1, 1]


def test_result_with_nan_does_not_count_as_changed() -> None:
    module = make_function(lambda x: x / 0 * 0)
    assert not any(
        module.forward([torch.ones(2)], CallOptions()).earlier_result_changed for _ in range(3)
    )


# -------------------------------------------------------------------- random numbers


@pytest.fixture
def states() -> Iterator[None]:
    """The random numbers of this process, which every request must leave alone."""
    before = torch.get_rng_state(), random.getstate()
    yield
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == random.getstate()


@pytest.mark.usefixtures("states")
@pytest.mark.parametrize(
    "draw",
    [lambda: torch.rand(1), random.random, lambda: torch.manual_seed(3), lambda: random.seed(3)],
    ids=["torch", "python", "reseeds torch", "reseeds python"],
)
def test_use_of_random_numbers_is_detected(draw: Callable[[], object]) -> None:
    module = make_function(lambda x: draw() and x if draw() is not None else x)
    assert all(module.forward([torch.ones(1)], CallOptions()).random_state_moved for _ in range(3))
    assert not make_function(lambda x: x).forward([torch.ones(1)], CallOptions()).random_state_moved


@pytest.mark.usefixtures("states")
def test_a_seed_repeats_the_random_numbers_and_moving_them_is_then_expected() -> None:
    module = make_function(lambda x: x + torch.rand(1) + random.random())
    first, again, other = (module.forward([torch.ones(1)], CallOptions(seed=s)) for s in (5, 5, 6))
    assert torch.equal(first.outputs[0], again.outputs[0])
    assert not torch.equal(first.outputs[0], other.outputs[0])
    assert not first.random_state_moved


def test_unseeded_random_numbers_are_the_same_in_every_process() -> None:
    drawn = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        random.seed(seed)
        module = make_function(lambda x: x + torch.rand(1) + random.random())
        drawn.append(module.forward([torch.ones(1)], CallOptions()).outputs[0])
    assert torch.equal(*drawn)
    assert not torch.equal(drawn[0], torch.ones(1))


@pytest.mark.usefixtures("states")
def test_no_request_touches_the_random_numbers_of_this_process() -> None:
    """The fixture compares the states afterwards."""
    module = make_module(nn.Linear, in_features=2, out_features=2)
    module.copy("state_dict")
    module.vjp([torch.ones(1, 2)], torch.ones(1, 2), ["weight"], None)
    channel = InProcessChannel(WorkerRuntime({"Wanted": Draws}))
    channel.request("construct", {"name": "Wanted", "arguments": {}})


class Draws(nn.Module):
    """A module whose construction draws random numbers, and seeds them."""

    def __init__(self) -> None:
        super().__init__()
        random.seed(torch.randint(9, ()).item())


# -------------------------------------------------------------------------------- vjp


@pytest.mark.parametrize("kind", ["parameter", "frozen", "plain"])
def test_gradients_of_inputs_and_of_tensors_registered_or_not(kind: str) -> None:
    module = make_module(Product, kind=kind)
    x, cotangent = torch.tensor([[1.0, 5.0]]), torch.tensor([[10.0]])
    found = module.vjp([x], cotangent, ["w", "unused", "nowhere"], None)
    assert [g.tolist() for g in found.inputs if g is not None] == [[[20.0, 30.0]]]
    assert found.parameters["w"] is not None
    assert found.parameters["w"].tolist() == [[10.0], [50.0]]
    assert found.parameters["unused"] is None and found.parameters["nowhere"] is None


def test_asking_for_gradients_leaves_tensors_as_they_were() -> None:
    module = make_module(Product, kind="frozen")
    module.vjp([torch.ones(1, 2)], torch.ones(1, 1), ["w"], None)
    assert not module.describe_tensors()["w"].trainable


def test_a_detached_output_has_no_gradients() -> None:
    found = make_function(lambda x: x.detach() * 2).vjp([torch.ones(2)], torch.ones(2), [], None)
    assert found.inputs == (None,)


def test_the_first_of_several_outputs_is_differentiated_and_the_mask_is_passed() -> None:
    def call(x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        return x * mask, x

    mask = torch.tensor([1, 0])
    found = make_function(call).vjp([torch.ones(2)], torch.ones(2), [], mask)
    assert found.inputs[0] is not None
    assert found.inputs[0].tolist() == [1, 0]


def test_the_numbers_that_a_backward_holds_are_counted() -> None:
    def call(x: Tensor) -> Tensor:
        return (x[:, None] * x).exp().sum(1)  # autograd keeps the product's exponentials

    x, n = torch.ones(30), 30
    counted = make_function(call).vjp([x], torch.ones(n), [], None, counted=True)
    assert n * n <= counted.kept < 2 * n * n <= counted.held < 5 * n * n
    plain = make_function(call).vjp([x], torch.ones(n), [], None)
    assert (plain.kept, plain.held) == (0, 0)


def test_a_graph_is_gone_through_again_and_the_last_gradients_are_given() -> None:
    class Counting(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.times = 0
            return x.clone()

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> Tensor:
            ctx.times += 1
            return gradients[0] * float(ctx.times)

    module = make_function(Counting.apply)
    for times in (1, 3):
        [gradient] = module.vjp([torch.ones(2)], torch.ones(2), [], None, times=times).inputs
        assert gradient is not None and gradient.tolist() == [times, times]
