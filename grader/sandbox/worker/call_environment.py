"""The environment of a submission's call: output, random state, gradients, attention functions."""

import contextlib
import io
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from headcheck.grader.sandbox.operations import MAX_PRINTED, PrintsReply


class PrintLog:
    """The beginning of what a submission printed since this was last taken, and its length."""

    def __init__(self) -> None:
        self.text = ""
        self.length = 0

    def add(self, text: str) -> None:
        """Add a text; only as much of it is kept as there is room for."""
        self.length += len(text)
        if len(self.text) < MAX_PRINTED:
            self.text += text[: MAX_PRINTED - len(self.text)]

    def take(self) -> PrintsReply:
        """Return what was kept, and start again."""
        text, length = self.text, self.length
        self.text, self.length = "", 0
        # A lone surrogate cannot be sent.
        return PrintsReply(text.encode("utf-8", "backslashreplace").decode(), length)


class OutputSink(io.TextIOBase):
    """Keeps what a submission prints from every stream, and logs it."""

    def __init__(self, log: PrintLog) -> None:
        self.log = log

    def write(self, text: str) -> int:
        self.log.add(text)
        return len(text)

    def writable(self) -> bool:
        return True


def seed(value: int | None) -> None:
    """Seed every generator that a submission is likely to use; do nothing if the value is None."""
    if value is None:
        return
    # torch.manual_seed would record the stack of every call until a GPU is initialised.
    torch.default_generator.manual_seed(value)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(value)
    if torch.backends.mps.is_available():
        torch.mps.manual_seed(value)
    random.seed(value)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(value % 2**32)


def advance(seeded: int | None) -> None:
    """Draw random numbers before a call without a seed, so that resetting the generator shows."""
    if seeded is None:
        torch.rand(1)
        random.random()


INITIAL_SEED = 0x68656164
"""The seed at the beginning of every request; nobody is likely to choose the same one.

Code that draws random numbers without a seed gets the same ones in every process, so that its
verdict can be reproduced.
"""


_SPARE_GENERATORS: list[Any] = []


@contextlib.contextmanager
def isolate_random_state() -> Iterator[None]:
    """Restore the random state of the process at the end of the context."""
    state, python_state, on_gpu = torch.get_rng_state(), random.getstate(), _get_gpu_states()
    numpy = sys.modules.get("numpy")
    if numpy is not None:  # to copy its state would take longer than many a request
        own = numpy.random.get_bit_generator()
        spare = _SPARE_GENERATORS.pop() if _SPARE_GENERATORS else numpy.random.MT19937()
        numpy.random.set_bit_generator(spare)
    try:
        yield
    finally:
        torch.set_rng_state(state)
        random.setstate(python_state)
        if numpy is not None:
            numpy.random.set_bit_generator(own)
            _SPARE_GENERATORS.append(spare)
        if on_gpu:
            torch.cuda.set_rng_state_all(on_gpu)


def get_random_state() -> tuple[Any, ...]:
    """Return the state of torch's and Python's generators."""
    states = torch.get_rng_state(), *_get_gpu_states()
    return random.getstate(), *(state.numpy().tobytes() for state in states)


def _get_gpu_states() -> list[Tensor]:
    """Return the states of the GPUs' generators; there are none before CUDA is initialised."""
    return torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []


GRADIENT_MODES: dict[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
    "no_grad": torch.no_grad,
    "grad": torch.enable_grad,
    "inference": torch.inference_mode,
}


def _set_cudnn(was: tuple[bool, bool]) -> None:
    torch._C._set_cudnn_benchmark(was[0])
    torch._C._set_cudnn_deterministic(was[1])


SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "whether gradients are recorded": (torch.is_grad_enabled, torch.set_grad_enabled),
    "the default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "the number of threads": (torch.get_num_threads, torch.set_num_threads),
    "whether algorithms are deterministic": (
        torch._C._get_deterministic_algorithms,
        torch.use_deterministic_algorithms,
    ),
    "the precision of matrix products": (
        torch._C._get_float32_matmul_precision,
        torch.set_float32_matmul_precision,
    ),
    "whether flash attention is enabled": (
        torch._C._get_flash_sdp_enabled,
        torch.backends.cuda.enable_flash_sdp,
    ),
    "whether memory-efficient attention is enabled": (
        torch._C._get_mem_efficient_sdp_enabled,
        torch.backends.cuda.enable_mem_efficient_sdp,
    ),
    "whether plain attention is enabled": (
        torch._C._get_math_sdp_enabled,
        torch.backends.cuda.enable_math_sdp,
    ),
    "whether cuDNN's attention is enabled": (
        torch._C._get_cudnn_sdp_enabled,
        torch.backends.cuda.enable_cudnn_sdp,
    ),
    "how cuDNN chooses algorithms": (
        lambda: (torch._C._get_cudnn_benchmark(), torch._C._get_cudnn_deterministic()),
        _set_cudnn,
    ),
    "how tensors are printed": (
        lambda: dict(vars(torch._tensor_str.PRINT_OPTS)),
        lambda was: vars(torch._tensor_str.PRINT_OPTS).update(was),
    ),
    "whether anomalies are detected": (
        torch.is_anomaly_enabled,
        torch.autograd.set_detect_anomaly,
    ),
}
"""Global settings of torch by description, each with functions to read and to set it. All are read
several times in every request, so the functions are those that torch's own call.
"""


class watch_settings:
    """Restore torch's settings at the end, and add those that had changed to `disturbed`.

    This context is entered several times for every request. So it is a class and not a generator,
    which would take twice as long. If it is entered for a message and then again for each request
    in it, every exit compares with the settings at the beginning of the message.
    """

    def __init__(self, disturbed: set[str]) -> None:
        self.disturbed = disturbed
        self.depth = 0

    def __enter__(self) -> None:
        if not self.depth:
            self.before = _read_settings()
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1
        after = _read_settings()
        if after != self.before:
            changes = zip(SETTINGS.items(), self.before, after, strict=True)
            for (name, (_read, write)), was, now in changes:
                if now != was:
                    self.disturbed.add(name)
                    write(was)


def _read_settings() -> list[Any]:
    return [read() for read, _ in SETTINGS.values()]


@contextlib.contextmanager
def fill_new_memory() -> Iterator[None]:
    """Fill memory that torch allocates with NaN, so that numbers that are never written are NaN."""
    deterministic = torch.are_deterministic_algorithms_enabled()
    warned = torch.is_deterministic_algorithms_warn_only_enabled()
    filled = torch._C._get_deterministic_fill_uninitialized_memory()
    # torch.use_deterministic_algorithms would import a compiler, which takes half a second.
    set_deterministic = torch._C._set_deterministic_algorithms
    set_filled = torch._C._set_deterministic_fill_uninitialized_memory
    set_deterministic(True, warn_only=True)
    set_filled(True)
    try:
        yield
    finally:
        set_filled(filled)
        set_deterministic(deterministic, warn_only=warned)


class _AttentionMode(torch.overrides.TorchFunctionMode):
    """Passes the name of each of torch's attention functions to a callback before the call."""

    def __init__(self, before_call: Callable[[str], None]) -> None:
        super().__init__()
        self.before_call = before_call

    def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        name = getattr(func, "__name__", "")
        if "attention" in name:
            self.before_call(name)
        return func(*args, **(kwargs or {}))


class BuiltInAttentionCalled(Exception):
    """A submission that must do without torch's built-in attention called it."""


def _refuse_attention(name: str) -> None:
    raise BuiltInAttentionCalled(
        f"torch's own `{name}` was called: here attention is written by hand"
    )


def forbid_builtin_attention(is_forbidden: bool) -> contextlib.AbstractContextManager[object]:
    """If `is_forbidden`, refuse torch's built-in attention in this context, whoever calls it."""
    return _AttentionMode(_refuse_attention) if is_forbidden else contextlib.nullcontext()


@contextlib.contextmanager
def watch_attention_calls(is_watched: bool) -> Iterator[set[str]]:
    """Collect the names of the attention functions called in this context, if `is_watched`."""
    called = set[str]()
    with _AttentionMode(called.add) if is_watched else contextlib.nullcontext():
        yield called


class suppress_output:
    """Discard what the submission prints to standard error; log standard output."""

    def __init__(self, log: PrintLog) -> None:
        self.log = log

    def __enter__(self) -> None:
        self.before = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = OutputSink(self.log), OutputSink(PrintLog())

    def __exit__(self, *_: object) -> None:
        sys.stdout, sys.stderr = self.before
