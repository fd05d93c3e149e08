"""What surrounds a call of a submission: output, random numbers, gradients, what torch is asked."""

import contextlib
import io
import random
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor


class OutputSink(io.TextIOBase):
    """Takes what a submission prints, and keeps only how much it was."""

    written = 0

    def write(self, text: str) -> int:
        self.written += len(text)
        return len(text)

    def writable(self) -> bool:
        return True


def seed(value: int | None) -> None:
    """Seed every generator a submission is likely to use."""
    if value is None:
        return
    # torch.manual_seed would keep the stack of every call, for GPUs that may yet come.
    torch.default_generator.manual_seed(value)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(value)
    if torch.backends.mps.is_available():
        torch.mps.manual_seed(value)
    random.seed(value)


def advance(seeded: int | None) -> None:
    """Move the random numbers on: whoever reseeds to where they stood is then seen, too."""
    if seeded is None:
        torch.rand(1)
        random.random()


INITIAL_SEED = 0x68656164
"""where the random numbers of every request begin: no seed that anybody would choose"""


@contextlib.contextmanager
def isolate_random_state() -> Iterator[None]:
    """Leave the random numbers of the process as they were, and let none of them be seen.

    What draws some without being told to gets the same ones every time, in every process: a verdict
    on it can be repeated.
    """
    state, python_state, on_gpu = torch.get_rng_state(), random.getstate(), _get_gpu_states()
    seed(INITIAL_SEED)
    try:
        yield
    finally:
        torch.set_rng_state(state)
        random.setstate(python_state)
        if on_gpu:
            torch.cuda.set_rng_state_all(on_gpu)


def get_random_state() -> tuple[Any, ...]:
    """Where torch's and Python's random numbers stand."""
    states = torch.get_rng_state(), *_get_gpu_states()
    return random.getstate(), *(state.numpy().tobytes() for state in states)


def _get_gpu_states() -> list[Tensor]:
    """The states of the GPUs' generators, once there are any."""
    return torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []


GRADIENT_MODES: dict[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
    "no_grad": torch.no_grad,
    "grad": torch.enable_grad,
    "inference": torch.inference_mode,
}


class _AttentionWatcher(torch.overrides.TorchFunctionMode):
    """Notes the names of torch's attention functions as they are called."""

    def __init__(self) -> None:
        super().__init__()
        self.called: set[str] = set()

    def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        name = getattr(func, "__name__", "")
        if "attention" in name:
            self.called.add(name)
        return func(*args, **(kwargs or {}))


class BuiltInAttentionCalled(Exception):
    """A submission that is to attend by hand called torch's own attention."""


class _AttentionRefuser(torch.overrides.TorchFunctionMode):
    """Refuses torch's attention functions, from wherever they are called."""

    def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        name = getattr(func, "__name__", "")
        if "attention" in name:
            raise BuiltInAttentionCalled(
                f"torch's own `{name}` was called: here attention is written by hand"
            )
        return func(*args, **(kwargs or {}))


def forbid_builtin_attention(wanted: bool) -> contextlib.AbstractContextManager[object]:
    """Whether torch's own attention is out of reach inside."""
    return _AttentionRefuser() if wanted else contextlib.nullcontext()


@contextlib.contextmanager
def watch_attention_calls(wanted: bool) -> Iterator[set[str]]:
    """Collect the names of the attention functions that are called inside."""
    if not wanted:
        yield set()
        return
    with _AttentionWatcher() as watcher:
        yield watcher.called


@contextlib.contextmanager
def suppress_output() -> Iterator[None]:
    """Keep what the submission prints away from everyone else."""
    with contextlib.redirect_stdout(OutputSink()), contextlib.redirect_stderr(OutputSink()):
        yield
