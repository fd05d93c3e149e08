"""Calls through the host: what comes back, what is seen on the way, what an author is told."""

import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headcheck.grader.sandbox.grader_side.subject import ChannelModule, InProcessChannel
from headcheck.grader.sandbox.operations import TAKE_PRINTS, PrintsReply
from headcheck.grader.sandbox.wire import Message, label_by_name, label_by_position
from headcheck.grader.sandbox.worker.runtime import WorkerRuntime
from headcheck.properties.subject import CallOptions, Pass
from headcheck.properties.violations.violation import Status, SubmissionFailed
from tests.grader.sandbox.runtimes import load_cells, make_function, make_module, make_subject


@pytest.fixture(autouse=True)
def no_module_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "submission", SimpleNamespace())


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


class Product(nn.Module):
    """x @ w, where w may be registered or not."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        w = torch.tensor([[2.0], [3.0]])
        self.w = nn.Parameter(w, requires_grad=kind != "frozen") if kind != "plain" else w
        self.unused = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.w


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


# ------------------------------------------------------------------- training, loading, modes


def once(**changes: Any) -> Pass:
    return Pass(**{"inputs": 0, "training": False, "backward": (0,), **changes})


def test_descent_step_changes_only_trainable_parameters() -> None:
    module = make_module(Product, kind="parameter")
    x, cotangent = torch.tensor([[1.0, 5.0]]), torch.tensor([[10.0]])
    step = once(rate=0.1, clear=True)
    [result] = module.run_series([[x]], [cotangent], [step], ["w", "unused"])
    assert result.weights["w"].tolist() == [[1.0], [-2.0]]
    assert result.weights["unused"].tolist() == [1.0]
    assert result.gradients["unused"] is None
    [result] = module.run_series([[torch.zeros(1, 2)]], [cotangent], [step], ["w"])
    assert result.weights["w"].tolist() == [[1.0], [-2.0]], "gradients were cleared"


def test_gradients_add_up_until_they_are_cleared() -> None:
    module = make_module(Product, kind="parameter")
    x, cotangent = torch.tensor([[1.0, 5.0]]), torch.tensor([[1.0]])
    steps = [once(), replace(once(), backward=(1,), clear=True), replace(once(), backward=(2,))]
    results = module.run_series([[x]], [cotangent], steps, ["w"])
    found = [result.gradients["w"] for result in results]
    assert [None if each is None else each.flatten().tolist() for each in found] == [
        [1.0, 5.0],
        [2.0, 10.0],
        [1.0, 5.0],
    ]


def test_frozen_weights_and_plain_inputs_get_no_gradient() -> None:
    module = make_module(Product, kind="parameter")
    x, cotangent = torch.tensor([[1.0, 5.0]]), torch.tensor([[1.0]])
    steps = [
        once(weights_learn=False),
        replace(once(input_learns=False), backward=(1,)),
    ]
    frozen, plain = module.run_series([[x]], [cotangent], steps, ["w"])
    assert frozen.gradients["w"] is None
    assert frozen.input_gradients[0] is not None
    assert plain.gradients["w"] is not None
    assert plain.input_gradients[1] is None


def test_random_numbers_go_on_during_a_series() -> None:
    module = make_module(nn.Dropout, p=0.5)
    steps = [Pass(inputs=0), Pass(inputs=0)]
    first, second = module.run_series([[torch.ones(64)]], [torch.ones(64)], steps, [])
    assert not torch.equal(first.output, second.output)


def test_unregistered_tensors_are_not_trained() -> None:
    module = make_module(Product, kind="plain")
    x, cotangent = torch.tensor([[1.0, 5.0]]), torch.tensor([[10.0]])
    [result] = module.run_series([[x]], [cotangent], [once(rate=0.1)], ["w"])
    assert result.gradients["w"] is None


def test_weights_are_loaded_by_the_module_s_own_state_dict() -> None:
    module = make_module(Product, kind="parameter")
    module.load({"w": torch.tensor([[7.0], [8.0]])})
    assert module.read(["w"])["w"].tolist() == [[7.0], [8.0]]
    with pytest.raises(SubmissionFailed, match="nowhere"):
        module.load({"nowhere": torch.ones(1)})


def test_the_same_tensor_is_given_again_with_other_numbers() -> None:
    seen = []

    def call(x: Tensor) -> Tensor:
        seen.append((id(x), x.tolist()))
        return x + 1

    returned = make_function(call).refill([torch.zeros(2)], [torch.ones(2)], "kept", "no_grad")
    assert [output.tolist() for output in returned.outputs] == [[2.0, 2.0]]
    assert [numbers for _, numbers in seen] == [[0.0, 0.0], [1.0, 1.0]]
    assert seen[0][0] == seen[1][0]


def test_a_longer_input_lies_where_a_shorter_one_was() -> None:
    seen = []

    def call(x: Tensor) -> Tensor:
        seen.append((x.data_ptr(), x.tolist()))
        return x + 1

    first, second = torch.zeros(2, 1), torch.ones(2, 1)
    returned = make_function(call).refill([first], [second], "grown", "grad")
    assert [output.tolist() for output in returned.outputs] == [[[2.0], [2.0]]]
    assert [numbers for _, numbers in seen] == [[[0.0]], [[1.0], [1.0]]]
    assert seen[0][0] == seen[1][0]


def test_results_are_written_over_before_the_second_call() -> None:
    kept = torch.ones(2)
    returned = make_function(lambda x: kept).overwrite_results([torch.zeros(2)])
    assert returned.outputs[0].tolist() == [7.0, 7.0]
    returned = make_function(lambda x: x).overwrite_results([torch.zeros(2)])
    assert returned.altered == ("input 0",)
    returned = make_function(lambda x: (x + 1,) * 2).overwrite_results([torch.zeros(2)])
    assert returned.altered == ("result 1",)
    returned = make_function(lambda x: (x + 1).expand(3, 2)).overwrite_results([torch.zeros(2)])
    assert returned.outputs[0].tolist() == [[1.0, 1.0]] * 3, "it cannot be written to"
    assert returned.altered == ("refused",)
    returned = make_function(lambda x: (x * x).view(1, 2).unbind()).overwrite_results(
        [torch.zeros(2)]
    )
    assert returned.altered == ("refused",), "only where gradients are recorded"


def test_settings_of_torch_are_restored_and_told() -> None:
    def call(x: Tensor) -> Tensor:
        torch.set_default_dtype(torch.float64)
        raise ValueError("no")

    function = make_function(call)
    with pytest.raises(SubmissionFailed, match="no"):
        function.forward([torch.ones(2)], CallOptions())
    assert torch.get_default_dtype() is torch.float32
    assert function.subject.list_disturbed() == ["the default dtype"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda: torch.set_printoptions(precision=2), "how tensors are printed"),
        (lambda: setattr(torch.backends.cudnn, "benchmark", True), "how cuDNN chooses algorithms"),
        (
            lambda: torch.backends.cuda.enable_cudnn_sdp(False),
            "whether cuDNN's attention is enabled",
        ),
    ],
)
def test_other_settings_are_restored_and_told_too(change: Callable[[], None], told: str) -> None:
    def call(x: Tensor) -> Tensor:
        change()
        return x

    function = make_function(call)
    function.forward([torch.ones(2)], CallOptions())
    assert function.subject.list_disturbed() == [told]
    function.forward([torch.ones(2)], CallOptions())
    assert torch._tensor_str.PRINT_OPTS.precision == 4
    assert not torch.backends.cudnn.benchmark
    assert torch.backends.cuda.cudnn_sdp_enabled()


def test_a_nested_module_is_called_and_switched_through_its_parent() -> None:
    nested = make_module(nn.Dropout, p=0.5).nest()
    ones = torch.ones(64)
    assert bool((nested.forward([ones], CallOptions(training=True, seed=1)).outputs[0] == 0).any())
    assert torch.equal(nested.forward([ones], CallOptions(training=False)).outputs[0], ones)


def test_what_is_not_done_as_by_every_module_is_listed() -> None:
    class Silent(nn.Linear):
        def eval(self) -> None:  # type: ignore[override]
            self.train(False)

    class Hasty(nn.Linear):
        __call__ = nn.Linear.forward

    class Lenient(nn.Linear):
        def load_state_dict(self, state: Any, strict: bool = True, assign: bool = False) -> Any:
            return super().load_state_dict(state, strict=False, assign=assign)

    def list_breaches(made: type[nn.Module]) -> list[str]:
        module = make_module(made, in_features=2, out_features=2)
        return list(module.list_breaches([torch.ones(1, 2)]))

    assert list_breaches(Silent) == ["eval() returns something else than the module"]
    assert list_breaches(Hasty) == ["a forward hook is not called"]
    assert list_breaches(Lenient) == ["load_state_dict() accepts a state without 'weight'"]
    assert not list_breaches(nn.Linear)

    class Shy(nn.Linear):
        def extra_repr(self) -> str:
            raise AttributeError("name")

        def load_state_dict(self, state: Any, strict: bool = True, assign: bool = False) -> Any:
            super().load_state_dict(state, strict, assign)

    assert list_breaches(Shy) == [
        "repr() raises AttributeError",
        "load_state_dict() does not return the missing keys",
    ]


def test_module_keeps_its_mode_by_default() -> None:
    module = make_module(nn.Dropout, p=0.5)
    ones = torch.ones(64)
    for training in (True, False, True):
        first = module.forward([ones], CallOptions(training=training, seed=1)).outputs[0]
        again = module.forward([ones], CallOptions(training=None, seed=1)).outputs[0]
        assert torch.equal(first, again)
        assert bool((first == 0).any()) is training


def test_train_and_eval_are_called_as_a_user_calls_them() -> None:
    called: list[object] = []

    class Telling(nn.Linear):
        def train(self, mode: bool = True) -> "Telling":
            called.append(mode)
            return super().train(mode)

        def eval(self) -> "Telling":
            called.append("eval")
            return super().eval()

    module = make_module(Telling, in_features=1, out_features=1)
    for training in (False, False, True):
        module.forward([torch.ones(1, 1)], CallOptions(training=training))
    assert called == ["eval", False, "eval", False, True]


@pytest.mark.parametrize(
    ("change", "altered"),
    [
        (lambda x: x.unsqueeze_(0), ("memory", "shape")),
        (lambda x: x.requires_grad_(), ("requires_grad",)),
        (lambda x: setattr(x, "data", x.data.clone()), ("memory",)),
        (lambda x: x.add_(1), ()),
        (lambda x: x.T.contiguous(), ()),
    ],
)
def test_changed_input_metadata_is_detected(
    change: Callable[[Tensor], object], altered: tuple[str, ...]
) -> None:
    def call(x: Tensor) -> Tensor:
        change(x)
        return torch.ones(1)

    assert make_function(call).forward([torch.ones(2, 3)], CallOptions()).altered == altered


def test_a_module_is_called_as_often_as_is_asked() -> None:
    calls = []

    def call(x: Tensor) -> Tensor:
        calls.append(x)
        return x

    make_function(call).forward([torch.ones(1)], CallOptions(times=5))
    assert len(calls) == 5


def test_overriding_named_parameters_hides_none() -> None:
    class Hiding(nn.Linear):
        def named_parameters(self, *args: Any, **kwargs: Any) -> Any:
            return iter(())

    assert set(make_module(Hiding, in_features=1, out_features=1).describe_tensors()) == {
        "weight",
        "bias",
    }


# ------------------------------------------------------------------------------ errors


def test_error_is_one_line_with_the_author_s_location() -> None:
    host, reply = load_cells(
        "def helper(x):\n    y = x\n    return y @ y",
        "def Wanted(x):\n    return helper(x)",
    )
    assert reply.op == "ok"
    handle = host.answer(Message(1, "get_function", {"name": "Wanted"})).meta["handle"]
    how = {"device": "cpu", "memory": "contiguous", "training": False, "seed": None}
    meta = {"handle": handle, **how, "grad": "grad", "watched": False, "times": 1}
    reply = host.answer(Message(2, "forward", meta, label_by_position([torch.ones(2, 3)])))
    assert reply.op == "raised"
    assert reply.meta["type"] == "RuntimeError"
    assert "\n" not in reply.meta["message"]
    assert (reply.meta["cell"], reply.meta["line"]) == (1, 3)


class Unprintable(Exception):
    def __str__(self) -> str:
        return 5 * "long story\n" + 5000 * "!"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("no\n\n  way"), "ValueError: no way"),
        (AssertionError(), "AssertionError"),
        (SystemExit(0), "SystemExit: 0"),
        (GeneratorExit(), "GeneratorExit"),
        (StopIteration(), "StopIteration"),
        (RecursionError("deep"), "RecursionError: deep"),
        (UnicodeError("half a pair \ud800"), "UnicodeError: half a pair"),
    ],
    ids=repr,
)
def test_any_exception_becomes_a_reply(error: BaseException, message: str) -> None:
    def call(x: Tensor) -> Tensor:
        raise error

    with pytest.raises(SubmissionFailed) as caught:
        make_function(call).forward([torch.ones(1)], CallOptions())
    assert caught.value.status is Status.CRASHED
    assert caught.value.message.startswith(message)
    caught.value.message.encode()


def test_a_long_message_is_cut() -> None:
    def call(x: Tensor) -> Tensor:
        raise Unprintable

    with pytest.raises(SubmissionFailed) as caught:
        make_function(call).forward([torch.ones(1)], CallOptions())
    assert len(caught.value.message) <= 400


@pytest.mark.parametrize(
    "error",
    [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried …")],
    ids=["python", "torch"],
)
def test_out_of_memory_has_its_own_status(error: Exception) -> None:
    def call(x: Tensor) -> Tensor:
        raise error

    with pytest.raises(SubmissionFailed) as caught:
        make_function(call).forward([torch.ones(1)], CallOptions())
    assert caught.value.status is Status.OUT_OF_MEMORY


def test_runtime_survives_errors_of_its_submission() -> None:
    calls: list[int] = []

    def call(x: Tensor) -> Tensor:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError
        return x

    module = make_function(call)
    with pytest.raises(SubmissionFailed):
        module.forward([torch.ones(1)], CallOptions())
    assert module.forward([torch.ones(1)], CallOptions()).outputs[0].tolist() == [1]


def test_unknown_request_is_refused() -> None:
    assert WorkerRuntime().answer(Message(1, "exec", {}, label_by_name({}))).op == "raised"


class Unset(nn.Module):
    def __init__(self, fresh: bool) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.own = nn.Parameter(torch.empty(3) if fresh else torch.empty(3).zero_())


@pytest.mark.parametrize(("fresh", "unset"), [(True, ["own"]), (False, [])])
def test_parameters_that_nobody_gave_numbers_are_told(fresh: bool, unset: list[str]) -> None:
    subject = make_subject(Unset=Unset)
    assert list(subject.list_unset("Unset", {"fresh": fresh})) == unset
    assert not torch.are_deterministic_algorithms_enabled()
    assert not subject.list_disturbed()
