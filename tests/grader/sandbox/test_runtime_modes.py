"""Series of calls through the host: training, loading, modes, and settings of torch."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headcheck.properties.subject import CallOptions, Pass
from headcheck.properties.violations.violation import SubmissionFailed
from tests.grader.sandbox.runtimes import Product, make_function, make_module


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


def test_train_and_eval_are_called_as_a_user_calls_them_once_for_many_calls() -> None:
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
    assert called == ["eval", False, True]


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
