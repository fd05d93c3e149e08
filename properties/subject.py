"""What is judged: an implementation, wherever it runs.

A property never knows who is behind a subject: a class in this process, or a student's notebook
in a confined one. Everything that crosses this protocol is names, numbers and tensors, so that it
can cross a process boundary. Every answer is data to be compared, never an object to be trusted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

Value = int | float | bool | str | None | Mapping[str, int | float | bool]


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """What the implementation says about one of its tensors."""

    kind: str  # "parameter" or "buffer"
    shape: tuple[int, ...]
    dtype: str
    device: str
    trainable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """How `forward` is to be called.

    `training` is None where the module stays in the mode that it is in. `seed` seeds the random
    number generators before the call. `watched` asks which attention
    functions of torch the call went through. It is called `times` over; the last call is the one
    that is answered.
    """

    training: bool | None = False
    seed: int | None = None
    memory: str = "contiguous"
    grad: str = "no_grad"  # "no_grad", "inference" or "grad"
    watched: bool = False
    times: int = 1


@dataclass(frozen=True, slots=True)
class CallResult:
    """What one call of `forward` gave back, and what else could be seen of it."""

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
    """what the inputs have otherwise than before, besides their numbers"""
    unmoved: tuple[str, ...] = ()
    """after a move: sentences about tensors that were kept where they were, and used"""


@dataclass(frozen=True, slots=True)
class Gradients:
    """Vector-Jacobian products: of every input, and of every parameter asked for by path."""

    inputs: tuple[Tensor | None, ...]
    parameters: Mapping[str, Tensor | None]


class Module(Protocol):
    """One constructed instance (or one function) of the submission.

    Every method raises `SubmissionFailed` when the submission's own code goes wrong.
    """

    def describe_tensors(self) -> Mapping[str, TensorInfo]:
        """The registered parameters and buffers, by state-dict name."""

    def read(self, paths: Sequence[str] | None) -> Mapping[str, Tensor]:
        """Tensors by attribute path, registered or not; those that do not exist are left out.

        Without paths all that are registered.
        """

    def write(self, tensors: Mapping[str, Tensor]) -> None:
        """Set tensors by attribute path; an unregistered tensor is replaced."""

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """`load_state_dict` with its own state, but for these entries."""

    def descend(
        self, inputs: Sequence[Tensor], cotangent: Tensor, mask: Tensor | None, rate: float
    ) -> None:
        """One step of gradient descent on sum(output * cotangent), for all that an optimizer sees.

        In evaluation mode. Each of `parameters()` moves by `rate` times its gradient.
        """

    def forward(self, inputs: Sequence[Tensor | None], options: CallOptions) -> CallResult:
        """Call it once."""

    def refill(self, first: Sequence[Tensor], inputs: Sequence[Tensor]) -> CallResult:
        """What comes back for `inputs`, given in the tensor objects of a call for `first`."""

    def vjp(
        self, inputs: Sequence[Tensor], cotangent: Tensor, paths: Sequence[str], mask: Tensor | None
    ) -> Gradients:
        """The gradients of sum(output * cotangent)."""

    def move(self, dtype: str | None, device: str | None) -> None:
        """`.to(dtype)`, `.to(device)`."""

    def copy(self, way: str) -> "Module":
        """Another instance with the same state: by "deepcopy", or through "state_dict"."""


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
        """Build an instance with these arguments, and move it to a dtype and a device."""

    def get_function(self, name: str) -> Module:
        """A function, as something that can be called like a module's `forward`."""

    def call(self, name: str, modules: Sequence[Module]) -> None:
        """Call a function of the submission on modules made before, for what it does to them."""
