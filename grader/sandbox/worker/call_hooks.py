"""Call a module in its own form: convert the usual arguments to its own, and its results back.

A call form (`properties/terms/call_form.py`) arrives as data and becomes two hooks of the module,
one before `forward` and one after it. So all code can call the module in the usual form, and also a
copy of it or a module that contains it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from headcheck.grader.sandbox.worker.given import (
    BESIDE_CONTEXT,
    CUT,
    FRAMES,
    WINDOW,
    convert_mask,
    convert_numbers,
    find_width,
    make_given,
    order_axes,
    restore_axes,
)

NO_CACHE = object()
"""stands for the cache of a call that returned none"""


@dataclass(frozen=True)
class ContinuedResult:
    """The results of a call with a cache, and the cache for the next call."""

    outputs: Any
    cache: Any


@dataclass(frozen=True)
class CallHooks:
    """The order of a call's inputs, and the positions of its results among the returned values."""

    inputs: Sequence[str]
    axes: str
    heads: int
    mask: Mapping[str, Any]
    places: Sequence[int] | None
    one_head: bool
    cache: Mapping[str, Any] | None = None
    make_cache: Callable[..., Any] | None = None
    """makes an empty cache for the first call, if the module writes into one"""
    numbers: Sequence[float] = ()
    """numbers that a function is given as further arguments after the tensors"""
    without_weights: Mapping[str, Any] | None = None
    kv_heads: int | None = None
    """how many heads keys and values are cut into, if fewer: these are the first of a token"""
    given: Mapping[str, str] | None = None
    """what other arguments of a call are given, by name"""
    rotation: Mapping[str, Any] = field(default_factory=dict)
    """the frequencies of rotary positions, if an argument needs them"""
    context_width: int = 0
    """the width of the tokens of keys and values, if wider: narrower ones are followed by zeros"""
    reset: str | None = None
    """the method of a module that is called before every call"""
    forgets: str | None = None
    """the attribute of a module, or of a part of it, that is set to None before every call"""
    cleared: Sequence[str] = ()
    """the paths of a module's tensors that are set to zero before every call"""
    bypassed: Sequence[str] = ()
    """the paths of layers of a module that every call leaves out"""
    silenced: Sequence[str] = ()
    """the paths of weights of a module that are zeros"""
    context_argument: str | None = None
    """the argument that takes the context, if it is passed by name"""
    adds_tokens: bool = False
    """whether the tokens are taken off the output again"""
    beside: Mapping[str, Any] | None = None
    """another mask that every call is given, which hides nothing"""
    joins_queries: bool = False
    """whether the module appends the first tokens to a context, which a sequence alone lacks"""
    output_width: int = 0
    """the width to which an output is cut that is as wide as the tokens; 0 if it is not"""
    width: int = 0
    """the width of the tokens in a first call from which lazy layers take theirs; 0 for no call"""

    def attach(self, module: nn.Module) -> None:
        """Attach hooks to a module so that it can be called in the usual form."""
        for path in self.bypassed:
            module.set_submodule(path, nn.Identity())
        for path in self.silenced:
            fix_tensor(module, path, torch.zeros_like)
        module.register_forward_pre_hook(self.convert_inputs, with_kwargs=True)
        module.register_forward_hook(self.arrange_results, with_kwargs=True)
        if self.width:
            with torch.no_grad():
                module(torch.zeros(1, 2, self.width))

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that is called in the usual form."""

        def call(*given: Tensor, **options: int) -> Any:
            own, named = self.convert_inputs(function, given, options)
            return self.arrange_results(function, given, named, function(*own, **named))

        return call

    def convert_inputs(
        self, called: Callable[..., Any], given: tuple[Tensor, ...], options: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the module's arguments in its own order: tokens, and perhaps a mask.

        The first `apart` tensors are tokens. With one, a sequence attends to itself, and all inputs
        but the mask are this tensor. With two, the first attends to the second. With three, they
        are queries, keys and values. A `cache` among the options continues a sequence; None begins
        a new sequence. Of a module that keeps its cache, it is how many tokens came before. Another
        cache is passed by name, or if `manner` is "by position", after the
        tensors. `properties.subject.CallOptions` describes the other manners.
        """
        before = self._prepare(called, given[0], options)
        manner = options.get("manner")
        apart = options.get("apart", 1)
        tokens, masks = given[:apart], given[apart:]
        own = self._order_axes(tokens[0])
        shared = [self._order_axes_of_keys(each) for each in tokens]
        roles: dict[str, Any] = {"x": own, "query": own, "context": shared[-1]}
        roles |= {"key": shared[min(1, apart - 1)], "value": shared[-1]}
        if self.joins_queries and apart == 1:
            roles["context"] = self._order_axes(tokens[0][..., :0, :])
        if masks or self.mask["required"]:
            as_numbers = masks and manner == "added"
            convert = convert_numbers if as_numbers else convert_mask
            roles["mask"] = convert(self.mask, masks[0] if masks else None, *tokens)
        if self.numbers:
            roles.setdefault("mask", None)  # what comes after a mask keeps its place
        kinds, how = (self.given or {}).items(), (self.rotation, before)
        named = {name: make_given(kind, tokens[0], *how) for name, kind in kinds}
        if "mask" in roles and self.mask["argument"] is not None:
            named[self.mask["argument"]] = roles.pop("mask")
        if self.context_argument is not None:
            named[self.context_argument] = roles.pop("context")
        if self.beside is not None:
            named[self.beside["argument"]] = convert_mask(self.beside, None, *tokens)
        if "cache" in options:
            named |= self._pass_cache(options["cache"], tokens[0])
        passed = (roles[name] for name in self.inputs if name in roles)
        if manner == "by position":
            return (*passed, options["cache"]), {}
        if manner == "without weights":
            named |= self.without_weights or {}
        return (*passed, *self.numbers), named

    def _prepare(self, called: Any, tokens: Tensor, options: Mapping[str, Any]) -> int:
        """Set what a module keeps before a call.

        Return how many tokens of the same sequence the module has seen and keeps.
        """
        before = options.get("cache") if self._keeps else None
        if before is None:
            self._begin(called, tokens, self.cache if "cache" in options else None)
        return before or 0

    @property
    def _keeps(self) -> bool:
        """Whether the module keeps its cache."""
        return self.cache is not None and bool(self.cache["reset"] or not self.cache["argument"])

    def _begin(self, called: Any, tokens: Tensor, cache: Mapping[str, Any] | None) -> None:
        """Make a module forget earlier sequences, perhaps with an empty cache for a new one."""
        if self.reset is not None:
            getattr(called, self.reset)()
        if cache and cache["reset"] is not None:
            getattr(called, cache["reset"])(**_fill_in(cache["reset_takes"], tokens))
        if self.forgets is not None:
            for module in called.modules():
                if hasattr(module, self.forgets):
                    setattr(module, self.forgets, None)
        for path in self.cleared:
            set_tensor(called, path, torch.zeros_like)

    def _pass_cache(self, cache: Any, tokens: Tensor) -> dict[str, Any]:
        assert self.cache is not None, "only a module with a cache is called with one"
        if self.make_cache is not None and cache is None:
            cache = self.make_cache(**_fill_in(self.cache["reset_takes"], tokens))
        name = self.cache["argument"]
        return {name: True if self._keeps else cache} if name else {}

    def _order_axes(self, tokens: Tensor) -> Tensor:
        return order_axes(tokens, self.axes, self.heads)

    def _order_axes_of_keys(self, tokens: Tensor) -> Tensor:
        missing = self.context_width - tokens.shape[-1]
        tokens = torch.nn.functional.pad(tokens, (0, missing)) if missing > 0 else tokens
        if self.axes == BESIDE_CONTEXT:
            return tokens
        if self.kv_heads is None:
            return self._order_axes(tokens)
        width = tokens.shape[-1] // self.heads
        return order_axes(tokens[..., : self.kv_heads * width], self.axes, self.kv_heads)

    def arrange_results(
        self,
        called: Callable[..., Any],
        given: tuple[Tensor, ...],
        named: Mapping[str, Any],
        result: Any,
    ) -> Any:
        """Return the requested results, in the usual order of axes.

        If the call form does not give their positions, all results that are tensors are returned. A
        call that is handed a cache returns a `ContinuedResult`.
        """
        values = result.values() if isinstance(result, dict) else result
        parts = list(values) if isinstance(result, tuple | list | dict) else [result]
        if self.adds_tokens or self.output_width:
            parts = self._restore_outputs(parts, given)
            result = parts[0] if result is values and isinstance(result, Tensor) else result
        cache = self._take_cache(parts, named)
        asked = self.without_weights or {}
        if asked and all(name in named and named[name] == asked[name] for name in asked):
            first = self.places[0] if self.places else 0
            return restore_axes(parts[first], self.axes) if len(parts) > first else result
        outputs = self._arrange(parts, given, result)
        if self.cache is None or self._keeps:
            return outputs
        by_position = len(given) > len(self.inputs)  # after the tensors
        if self.cache["argument"] not in named and not by_position:
            return outputs
        if self.cache["beside_weights"] and isinstance(outputs, tuple):
            outputs = outputs[0]
        return ContinuedResult(outputs, cache)

    def _restore_outputs(self, parts: list[Any], given: tuple[Any, ...]) -> list[Any]:
        """Return the results, of which the first that is shaped like the tokens is the output.

        The tokens are taken off it, or its further numbers are left out.
        """
        place = next(i for i, role in enumerate(self.inputs) if role in ("x", "query"))
        tokens = given[place]
        alike = (getattr(part, "shape", None) == tokens.shape for part in parts)
        first = next((i for i, is_like in enumerate(alike) if is_like), None)
        if first is not None and self.adds_tokens:
            parts[first] = parts[first] - tokens
        if first is not None and self.output_width:
            parts[first] = parts[first].narrow(find_width(self.axes), 0, self.output_width)
        return parts

    def _take_cache(self, parts: list[Any], named: Mapping[str, Any]) -> Any:
        """Return the cache, and take it out of a module's results; NO_CACHE if there is none."""
        if self.cache is None or self._keeps:
            return NO_CACHE
        if self.make_cache not in (None, tuple):
            own = named.get(self.cache["argument"])
            parts[1:] = [part for part in parts[1:] if part is not own]
            return own
        return parts.pop(self.cache["place"]) if len(parts) > self.cache["place"] else NO_CACHE

    def _arrange(self, parts: list[Any], given: tuple[Tensor, ...], result: Any) -> Any:
        if self.places is not None and not self.places:
            found = [part for part in parts if isinstance(part, Tensor)]
            return tuple(self._restore_found(part, given[0]) for part in found)
        if self.places:
            if max(self.places) >= len(parts):
                return result
            parts = [parts[place] for place in self.places]
        if not all(isinstance(part, Tensor) for part in parts):
            return result
        parts[0] = restore_axes(parts[0], self.axes)
        if self.one_head and len(parts) > 1:
            parts[1] = parts[1].unsqueeze(-3)
        return parts[0] if len(parts) == 1 else tuple(parts)

    def _restore_found(self, part: Tensor, tokens: Tensor) -> Tensor:
        """Return a result with its axes in the usual order if it has the axes of the tokens."""
        if self.axes in (*CUT, FRAMES, WINDOW):
            like = part.shape == self._order_axes(tokens).shape
        else:
            like = part.dim() == tokens.dim()
        return restore_axes(part, self.axes) if like else part


def fix_tensor(module: nn.Module, path: str, make: Callable[[Tensor], Tensor]) -> None:
    """Replace a tensor of a module by a buffer, which nothing trains."""
    owner, _, name = path.rpartition(".")
    holder = module.get_submodule(owner)
    old: Tensor = getattr(holder, name).detach()
    delattr(holder, name)
    holder.register_buffer(name, make(old))


def _fill_in(takes: Mapping[str, Any], tokens: Tensor) -> dict[str, Any]:
    """Return what sets up a cache is given, with what the tokens of the call say."""
    batch = len(tokens) if tokens.dim() > 2 else 1
    known = {"batch": batch, "dtype": tokens.dtype, "device": tokens.device}
    return {name: known.get(kind, kind) for name, kind in takes.items()}


def set_tensor(module: Any, path: str, make: Callable[[Tensor], Tensor]) -> None:
    """Replace a tensor of a module by another, which no gradient reaches."""
    owner, _, name = path.rpartition(".")
    holder = module.get_submodule(owner)
    if isinstance(kept := getattr(holder, name, None), Tensor):
        setattr(holder, name, make(kept.detach()))
