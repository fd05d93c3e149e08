"""The interface to an implementation under check, wherever the implementation runs.

A property does not know whether a subject is a class in this process or a student's notebook in a
confined one. Only names, numbers and tensors cross this protocol, so that they can cross a process
boundary. Every answer is data to be compared, never an object to be trusted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

Value = int | float | bool | str | tuple[int, int] | None | Mapping[str, int | float | bool]


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One registered tensor, as the implementation describes it."""

    kind: str  # "parameter", "buffer" or "unregistered"
    shape: tuple[int, ...]
    dtype: str
    device: str
    trainable: bool
    has_gradient: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """How to call `forward`.

    If `training` is None, the module stays in its mode. `seed` seeds the random number generators
    before the call. `watched` records which of torch's attention functions the call uses, and
    `counted` records how many numbers it holds. `times` repeats the call, and the last result is
    returned. The first `apart` inputs are tokens: see `properties.terms.call_form`. The `manner`
    "added" means that the numbers of the mask are added to the scores, and "without weights" that
    no attention weights are requested.
    """

    training: bool | None = False
    seed: int | None = None
    memory: str = "contiguous"
    grad: str = "no_grad"  # "no_grad", "inference" or "grad"
    watched: bool = False
    counted: bool = False
    times: int = 1
    apart: int = 1
    manner: str = "usual"


@dataclass(frozen=True, slots=True)
class CallResult:
    """The results of one call of `forward`, and other observations."""

    outputs: tuple[Tensor, ...]
    form: str  # "tensor", "tuple", or the name of the type that came instead
    dtypes: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    inputs_after: tuple[Tensor, ...] = ()
    earlier_result_changed: bool = False
    config_changed: bool = False
    random_state_moved: bool = False
    training_after: bool = False
    called: tuple[str, ...] = ()
    held: int = 0
    """the most numbers that new tensors held at the same time, if they were counted"""
    kept: int = 0
    """how many numbers are in the cache that the call returned, if they were counted"""
    altered: tuple[str, ...] = ()
    """attributes of the inputs that changed, such as their shapes; their numbers are not among them
    """
    unmoved: tuple[str, ...] = ()
    """sentences about tensors that were used after a move without having been moved"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One call in a series without reseeding, and the steps after it."""

    inputs: int
    """the number of the input of the call"""
    training: bool = True
    grad: str = "grad"  # as in CallOptions
    input_learns: bool = True
    """whether the input requires a gradient"""
    weights_learn: bool = True
    """whether the parameters require gradients"""
    backward: tuple[int, ...] = ()
    """the numbers of the passes from whose outputs gradients are then propagated back, one after
    the other
    """
    rate: float = 0.0
    """the rate of a gradient descent step after that; 0 for no step"""
    clear: bool = False
    """whether the gradients are cleared at the end"""
    output: int = 0
    """the number of the output to use"""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Tokens that continue a sequence, in one call with a cache."""

    tokens: Tensor
    after: int | None
    """the number of the chunk whose cache the call gets; None for an empty cache"""
    weights: Mapping[str, Tensor] = field(default_factory=dict)
    """the weights to write before the call, by attribute path"""
    mask: Tensor | None = None
    """the mask for all keys so far, the keys of earlier chunks first"""


@dataclass(frozen=True, slots=True)
class PassResult:
    """The results of one pass of a series."""

    output: Tensor
    input_gradients: Mapping[int, Tensor | None]
    """the gradient of the input of each pass that was propagated back, by the pass's number"""
    gradients: Mapping[str, Tensor | None]
    """the gradients that have added up in the parameters, by path; empty if nothing was propagated
    back"""
    weights: Mapping[str, Tensor]
    """the weights after a gradient descent step, by path; empty without a step"""


@dataclass(frozen=True, slots=True)
class Gradients:
    """Vector-Jacobian products for every input and for every requested parameter, by path."""

    inputs: tuple[Tensor | None, ...]
    parameters: Mapping[str, Tensor | None]
    kept: int = 0
    """how many numbers were held in new tensors between forward and backward, if they were counted
    """
    held: int = 0
    """the most numbers that new tensors held at the same time, in the forward or the backward"""


class Module(Protocol):
    """One constructed instance (or one function) of the submission.

    Every method raises `SubmissionFailed` if the submission's own code fails.
    """

    def describe_tensors(self, *, unregistered: bool = False) -> Mapping[str, TensorInfo]:
        """Return the registered parameters and buffers, by state-dict name.

        With `unregistered`, the result also has the module's other tensors, by attribute path.
        """

    def read(self, paths: Sequence[str] | None) -> Mapping[str, Tensor]:
        """Return tensors, registered or not, by attribute path; missing ones are left out.

        Without paths, return all registered tensors.
        """

    def write(self, tensors: Mapping[str, Tensor]) -> None:
        """Set tensors by attribute path; unregistered tensors are replaced."""

    def exchange(self, tensors: Mapping[str, Tensor], *, layers: bool = False) -> None:
        """Set tensors by attribute path; registered parameters are replaced by new ones.

        With `layers`, the submodules that hold them are also replaced.
        """

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Call `load_state_dict` with the module's own state dict, updated by these entries."""

    def forward(self, inputs: Sequence[Tensor | None], options: CallOptions) -> CallResult:
        """Call the module once."""

    def refill(
        self, first: Sequence[Tensor], inputs: Sequence[Tensor], reuse: str, grad: str
    ) -> CallResult:
        """Call the module for `first`, then for `inputs`, and return the second answer.

        `inputs` reuse the same tensor objects ("kept"), the memory of `first` after it was freed
        ("freed"), or tensors in whose storages `first` filled all but the last token ("grown").
        """

    def vjp(
        self,
        inputs: Sequence[Tensor],
        cotangent: Tensor,
        paths: Sequence[str],
        mask: Tensor | None,
        output: int = 0,
        only: int | None = None,
        apart: int = 1,
        times: int = 1,
        counted: bool = False,
        memory: str = "contiguous",
    ) -> Gradients:
        """Return the gradients of sum(output * cotangent), in evaluation mode.

        With `only`, only the input with this number requires a gradient. `apart` and `counted` are
        as in `CallOptions`, and `memory` is also the layout of the cotangent. The backward runs
        through the graph `times` times, each time with new gradients, and the last gradients are
        returned.
        """

    def run_series(
        self,
        inputs: Sequence[Sequence[Tensor]],
        cotangents: Sequence[Tensor],
        passes: Sequence[Pass],
        paths: Sequence[str],
    ) -> tuple[PassResult, ...]:
        """Run passes one after the other, without ever reseeding.

        Each input is a list of arguments, and has a cotangent. A step of gradient descent moves
        each of `parameters()`, as an optimizer would, by `rate` times its gradient.
        """

    def decode(
        self, chunks: Sequence[Chunk], counted: bool = False, manner: str = "usual"
    ) -> tuple[CallResult, ...]:
        """Call the module in evaluation mode for chunks of sequences in order, each with its cache.

        The cache is passed by name, or positionally if the `manner` is "by position". With the
        `manner` "in training" the calls are in training mode.
        """

    def overwrite_results(self, inputs: Sequence[Tensor]) -> CallResult:
        """Call the module, overwrite its result, and call it again; return the second answer.

        `altered` lists the inputs and the other results that the writing changed.
        """

    def call_within(
        self, way: str, inputs: Sequence[Tensor], weights: Mapping[str, Tensor]
    ) -> CallResult:
        """Call the module in torch's "functional_call" (with `weights`), "vmap" or "autocast"."""

    def nest(self) -> "Module":
        """Return a larger module that contains this one and passes calls on to it."""

    def pair(self, other: "Module") -> "Module":
        """Return a module that calls this module and the other, and returns both first outputs."""

    def list_breaches(self, inputs: Sequence[Tensor]) -> Sequence[str]:
        """Describe how calls of the module break the rules for every nn.Module."""

    def list_replaced(self) -> Sequence[str]:
        """Return the names of the methods that replace its parameters by other objects."""

    def prepare(self, *, trainable: bool, training: bool) -> None:
        """Freeze or unfreeze the parameters, set their gradients to one, and set the mode."""

    def list_modes(self) -> Sequence[bool]:
        """Return whether the module, and each of its submodules, is in training mode."""

    def move(self, dtype: str | None, device: str | None) -> None:
        """Call `.to(dtype)` and `.to(device)`."""

    def copy(self, way: str) -> "Module":
        """Return another instance with the same state.

        The `way` is "deepcopy", "pickle", "state_dict", or "subclass", which makes an instance of a
        derived class.
        """


class Subject(Protocol):
    """One implementation of one contract."""

    def construct(
        self,
        name: str,
        arguments: Mapping[str, Value],
        seed: int | None,
        dtype: str | None = None,
        device: str | None = None,
        *,
        given: str = "by name",
        form: Mapping[str, object] | None = None,
        variables: Mapping[str, int | float | bool] | None = None,
    ) -> Module:
        """Build an instance with these arguments and move it to a dtype and a device.

        With a call form (as data), calls of the instance are written in the usual form.

        The arguments are passed by name where the names match, or all "by position". A mapping
        becomes an object with these attributes; with "by class" they are attributes of its class.
        `variables` replaces the values of variables in the submission's module, and values that are
        computed from them change accordingly.
        """

    def draw_after_construction(
        self, name: str, arguments: Mapping[str, Value], seed: int
    ) -> Tensor:
        """Draw random numbers after seeding the generators and building an instance."""

    def list_unset(self, name: str, arguments: Mapping[str, Value]) -> Sequence[str]:
        """Return the parameters of a new instance that nobody has initialised."""

    def list_disturbed(self) -> Sequence[str]:
        """Return the settings of torch that its code has changed so far, also in constructors."""

    def get_function(
        self,
        name: str,
        variables: Mapping[str, int | float | bool] | None = None,
        form: Mapping[str, object] | None = None,
    ) -> Module:
        """Return a function as a module whose `forward` calls it, with these variables set.

        With a call form, calls of the function are written in the usual form.
        """

    def call(self, name: str, modules: Sequence[Module]) -> None:
        """Call a function of the submission on existing modules, for its side effects."""
