"""Call a module for chunks of sequences, each with the cache of the chunk before it.

A cache never leaves this process, and may be any object that the module makes. If a module is
handed its caches (`properties/terms/call_form.py`), it may be given any of the earlier ones, so
that a sequence can be continued twice. A module that stores its own cache can only continue with it
or reset it. It is told how many tokens came before instead.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from headcheck.grader.sandbox.worker import attribute_paths
from headcheck.grader.sandbox.worker.batch import Tensors
from headcheck.grader.sandbox.worker.call_hooks import NO_CACHE, ContinuedResult
from headcheck.grader.sandbox.worker.calling import (
    Refused,
    describe_result,
    extract_tensors,
    set_training,
)
from headcheck.grader.sandbox.worker.held import count_held
from headcheck.grader.sandbox.worker.left_behind import iter_tensors


@dataclass(frozen=True)
class DecodedChunk:
    """The results of one call, and how many numbers it used, if they were counted."""

    form: str
    output: Tensor
    held: int
    """the most numbers that the call held at any one time, not counting its inputs"""
    kept: int
    """the numbers in the cache that the call returned"""


def decode(
    target: nn.Module,
    after: Sequence[int | None],
    given: Tensors,
    counted: bool,
    options: Mapping[str, Any],
    *,
    training: bool = False,
) -> list[DecodedChunk]:
    """Call a module for each chunk.

    Chunk `n` is the tensor named "n", and its mask, if it has one, is named "mask n". A tensor
    named "n" and a path is written to that path before the call.
    """
    set_training(target, training)
    caches: list[Any] = []
    decoded = []
    for number, earlier in enumerate(after):
        prefix = f"{number} "
        for name in (each for each in given if each.startswith(prefix)):
            attribute_paths.put(target, name.removeprefix(prefix), given[name])
        cache = None if earlier is None else caches[earlier]
        inputs = [given[name] for name in (str(number), f"mask {number}") if name in given]
        known = [each for each in tree_leaves(cache) if isinstance(each, Tensor)]
        with torch.no_grad(), count_held(counted, [*inputs, *known]) as held:
            result = target(*inputs, cache=cache, **options)
        if not isinstance(result, ContinuedResult):  # the module keeps its cache
            result = ContinuedResult(result, (cache or 0) + inputs[0].shape[-2])
        output = _extract_output(result)
        caches.append(result.cache)
        kept = count_kept(result.cache) if counted else 0
        form = describe_result(result.outputs)
        # A later call may write over the output.
        decoded.append(DecodedChunk(form, output.clone(), held.most, kept))
    return decoded


def fill_cache(target: nn.Module, chunks: Sequence[Tensor]) -> Any:
    """Return the cache after chunks of a sequence, or how many tokens a module has kept."""
    cache = None
    for tokens in chunks:
        result = target(tokens, cache=cache)
        handed = isinstance(result, ContinuedResult)
        cache = result.cache if handed else (cache or 0) + tokens.shape[-2]
    return cache


def count_kept(cache: Any) -> int:
    """Return how many numbers a cache holds; numbers that tensors share count once."""
    room: dict[int, int] = {}
    shown: Counter[int] = Counter()
    for _, tensor in iter_tensors(cache, "", set()):
        storage = tensor.untyped_storage()
        room[storage._cdata] = storage.nbytes() // tensor.element_size()
        shown[storage._cdata] += tensor.numel()
    return sum(min(room[each], shown[each]) for each in room)


def _extract_output(result: ContinuedResult) -> Tensor:
    """Return the output of a call with a cache. Raises Refused if the call did not return one."""
    found = extract_tensors(result.outputs)
    if result.cache is NO_CACHE:
        raise Refused(f"no cache comes back from `forward`, but {describe_result(result.outputs)}")
    if len(found) != 1:
        got = describe_result(result.outputs)
        raise Refused(f"an output and a cache are to come back, not {got}")
    return found[0]
