"""The interface of an implementation under check, wherever it runs.

A property does not know what is behind a subject: a class in this process, or a student's notebook
in a confined one. Only names, numbers and tensors cross this protocol, so that they can cross a
process boundary. Every answer is data to be compared, never an object to be trusted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

Value = int | float | bool | str | None | Mapping[str, int | float | bool]


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One registered tensor, as the implementation describes it."""

    kind: str  # "parameter" or "buffer"
    shape: tuple[int, ...]
    dtype: str
    device: str
    trainable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """How to call `forward`.

    With `training` None the module stays in its mode. `seed` seeds the random number generators
    before the call. `watched` records which attention functions of torch the call goes through.
    `times` repeats the call; the last one is answered.
    """

    training: bool | None = False
    seed: int | None = None
    memory: str = "contiguous"
    grad: str = "no_grad"  # "no_grad", "inference" or "grad"
    watched: bool = False
    times: int = 1


@dataclass(frozen=True, slots=True)
class CallResult:
    """What one call of `forward` returned, and what else was observed."""

    outputs: tuple[Tensor, ...]
    form: str  # "tensor", "tuple", or the name of the type that came instead
    dtypes: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    inputs_after: tuple[Tensor, ...] = ()
    printed: int = 0
    earlier_result_changed: bool = False
    config_changed: bool = False
    random_state_moved: bool = False
    training_after: bool = False
    called: tuple[str, ...] = ()
    altered: tuple[str, ...] = ()
    """attributes of the inputs that changed, besides their numbers"""
    unmoved: tuple[str, ...] = ()
    """after a move: sentences about tensors that were used without having been moved"""


@dataclass(frozen=True, slots=True)
class Gradients:
    """Vector-Jacobian products for every input and for every requested parameter, by path."""

    inputs: tuple[Tensor | None, ...]
    parameters: Mapping[str, Tensor | None]


class Module(Protocol):
    """One constructed instance (or one function) of the submission.

    Every method raises `SubmissionFailed` when the submission's own code goes wrong.
    """

    def describe_tensors(self) -> Mapping[str, TensorInfo]:
        """Return the registered parameters and buffers, by state-dict name."""

    def read(self, paths: Sequence[str] | None) -> Mapping[str, Tensor]:
        """Return tensors by attribute path, registered or not, without those that do not exist.

        Without paths, return all registered tensors.
        """

    def write(self, tensors: Mapping[str, Tensor]) -> None:
        """Set tensors by attribute path; unregistered tensors are replaced."""

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Call `load_state_dict` with its own state dict, updated by these entries."""

    def descend(
        self, inputs: Sequence[Tensor], cotangent: Tensor, mask: Tensor | None, rate: float
    ) -> None:
        """Take one step of gradient descent on sum(output * cotangent), in evaluation mode.

        Each of `parameters()`, which is what an optimizer sees, moves by `rate` times its gradient.
        """

    def forward(self, inputs: Sequence[Tensor | None], options: CallOptions) -> CallResult:
        """Call it once."""

    def refill(self, first: Sequence[Tensor], inputs: Sequence[Tensor]) -> CallResult:
        """Call it for `first`, then for `inputs` in the same tensor objects; return the latter."""

    def vjp(
        self, inputs: Sequence[Tensor], cotangent: Tensor, paths: Sequence[str], mask: Tensor | None
    ) -> Gradients:
        """Return the gradients of sum(output * cotangent)."""

    def move(self, dtype: str | None, device: str | None) -> None:
        """Call `.to(dtype)` and `.to(device)`."""

    def copy(self, way: str) -> "Module":
        """Return another instance with the same state, by "deepcopy" or through "state_dict"."""


class Subject(Protocol):
    """One implementation of one contract."""

    def construct(
        self,
        name: str,
        arguments: Mapping[str, Value],
        seed: int | None,
        dtype: str | None = None,
        device: str | None = None,
    ) -> Module:
        """Build an instance with these arguments and move it to a dtype and a device."""

    def get_function(self, name: str) -> Module:
        """Return a function as a module whose `forward` calls it."""

    def call(self, name: str, modules: Sequence[Module]) -> None:
        """Call a function of the submission on modules built before, for its side effects."""
