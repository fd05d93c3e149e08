"""Compute a module's gradients, and train it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from headcheck.grader.sandbox.worker import attribute_paths
from headcheck.grader.sandbox.worker.call_environment import GRADIENT_MODES, get_random_state
from headcheck.grader.sandbox.worker.calling import (
    Refused,
    apply_memory_layout,
    extract_tensors,
    make_sendable,
    set_training,
)
from headcheck.grader.sandbox.worker.held import HeldNumbers, count_held, go_on_counting


def compute_vjp(
    target: Any, meta: Mapping[str, Any], tensors: dict[str, Tensor], apart: Mapping[str, int]
) -> tuple[dict[str, int], dict[str, Tensor]]:
    """Return the gradients of sum(output * cotangent) for the inputs and the tensors at `paths`.

    This also returns how many numbers were held for the gradients, if counted. It calls `backward`,
    as training does, because torch.autograd.grad does not work everywhere: for example not through
    torch.utils.checkpoint with `use_reentrant=True`.
    """
    given = {name: tensor.to(meta["device"]) for name, tensor in tensors.items()}
    cotangent, mask = given.pop("cotangent"), given.pop("mask", None)
    inputs, paths = list(given.values()), meta["paths"]
    layout = meta.get("memory", "contiguous")
    cotangent = apply_memory_layout(cotangent, layout)
    if layout != "expanded":  # gradients of what shares its memory would not tell its parts apart
        inputs[0] = apply_memory_layout(inputs[0], layout)
    is_counted = meta.get("counted", False)
    learn = [meta.get("only") in (None, number) for number in range(len(inputs))]
    for tensor, learns in zip(inputs, learn, strict=True):
        tensor.requires_grad_(learns)
    masks = () if mask is None else (mask,)
    set_training(target, False)
    with torch.enable_grad(), _restore_requires_grad(target, paths):
        leaves = attribute_paths.prepare_leaves(target, paths)
        _clear_gradients(target, leaves.values())
        with count_held(is_counted, inputs) as held:
            result = extract_tensors(target(*inputs, *masks, **apart))[meta["output"]]
        if [tensor.requires_grad for tensor in inputs] != learn:
            raise Refused("it changes whether its input requires a gradient")
        kept = held.count()
        for left in reversed(range(meta.get("times", 1) if result.requires_grad else 0)):
            _clear_gradients(target, (*inputs, *leaves.values()))
            _propagate(result, cotangent, again=left > 0, held=held if is_counted else None)
    found = {f"input {i}": tensor.grad for i, tensor in enumerate(inputs)}
    found.update((path, leaf.grad) for path, leaf in leaves.items())
    _clear_gradients(target, leaves.values())
    gradients = {name: make_sendable(grad) for name, grad in found.items() if grad is not None}
    return {"kept": kept, "held": held.most}, gradients


def run_series(
    target: Any,
    paths: Sequence[str],
    tensors: dict[str, Tensor],
    passes: Sequence[Mapping[str, Any]],
    device: str,
) -> dict[str, Tensor]:
    """Carry out passes (`properties.subject.Pass`), and return the results of each."""
    given = {name: tensor.to(device) for name, tensor in tensors.items()}
    learners = [parameter for parameter in target.parameters() if parameter.requires_grad]
    _clear_gradients(target, ())
    found: dict[str, Tensor] = {}
    runs: list[tuple[Tensor, Tensor]] = []
    for number, step in enumerate(passes):
        with _freeze(learners, frozen=not step["weights_learn"]):
            runs.append(_take_pass(target, step, given))
            seen: dict[str, Tensor | None] = {f"output {number}": runs[-1][1]}
            for turn, earlier in enumerate(step["backward"], 1):
                x, output = runs[earlier]
                if output.requires_grad:
                    again = earlier in step["backward"][turn:]
                    _propagate(output, given[f"cotangent {passes[earlier]['inputs']}"], again=again)
                seen[f"input gradient {number} {earlier}"] = x.grad
        if step["backward"]:
            seen.update(_find_gradients(target, paths, number))
        if step["rate"]:
            _descend(learners, step["rate"])
            seen.update((f"weight {number} {p}", attribute_paths.find(target, p)) for p in paths)
        # Copied at once: what follows changes the gradients and the weights in place.
        found.update((n, make_sendable(t).clone()) for n, t in seen.items() if t is not None)
        if step["clear"]:
            _clear_gradients(target, ())
    return found


def _propagate(
    output: Tensor, cotangent: Tensor, *, again: bool = False, held: HeldNumbers | None = None
) -> None:
    """Propagate a gradient back; with `again`, keep the graph for another backward pass.

    New tensors are added to the count in `held`. Raises Refused if the backward pass changes the
    cotangent or the random state.
    """
    given, before = cotangent.clone(), get_random_state()
    with go_on_counting(held, (given,)):
        output.backward(given, retain_graph=again)
    if not torch.equal(given, cotangent):
        raise Refused("its backward writes into the gradient that it gets, which others need")
    if get_random_state() != before:
        raise Refused("its backward changes the state of the random numbers")


def _take_pass(
    target: Any, step: Mapping[str, Any], given: Mapping[str, Tensor]
) -> tuple[Tensor, Tensor]:
    """Call the object once; return the input and the output."""
    number = step["inputs"]
    x, mask = given[f"x {number}"].clone(), given.get(f"mask {number}")
    masks = () if mask is None else (mask,)
    set_training(target, step["training"])
    x.requires_grad_(step["grad"] == "grad" and step["input_learns"])
    with GRADIENT_MODES[step["grad"]]():
        return x, extract_tensors(target(x, *masks))[step["output"]]


def _find_gradients(target: Any, paths: Sequence[str], number: int) -> dict[str, Tensor | None]:
    leaves = {path: attribute_paths.find(target, path) for path in paths}
    return {
        f"gradient {number} {path}": leaf.grad for path, leaf in leaves.items() if leaf is not None
    }


def prepare(target: nn.Module, *, trainable: bool, training: bool) -> None:
    """Freeze or unfreeze the parameters, set their gradients to one, and set the mode."""
    for parameter in nn.Module.parameters(target):
        parameter.grad = torch.ones_like(parameter)
        parameter.requires_grad_(trainable)
    set_training(target, training)


def _descend(learners: Sequence[Tensor], rate: float) -> None:
    with torch.no_grad():
        for parameter in learners:
            if parameter.grad is not None:
                parameter.sub_(rate * parameter.grad)


def _clear_gradients(target: object, others: Any) -> None:
    registered = list(nn.Module.parameters(target)) if isinstance(target, nn.Module) else []
    for tensor in (*registered, *others):
        tensor.grad = None


@contextmanager
def _freeze(learners: Sequence[Tensor], *, frozen: bool) -> Iterator[None]:
    """If `frozen`, freeze parameters in this context, so that they require no gradient."""
    try:
        for parameter in learners if frozen else ():
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter in learners if frozen else ():
            parameter.requires_grad_(True)


@contextmanager
def _restore_requires_grad(target: object, paths: Sequence[str]) -> Iterator[None]:
    """Restore `requires_grad` of the tensors at these paths at the end of the context."""
    tensors = (attribute_paths.find(target, path) for path in paths)
    plain = [t for t in tensors if t is not None and t.is_leaf and not t.requires_grad]
    try:
        yield
    finally:
        for tensor in plain:
            tensor.requires_grad_(False)
