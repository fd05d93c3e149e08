"""Map canonical parameters to the tensors of an implementation, and back.

Canonically a projection is one matrix of shape (out, in), as in `torch.nn.Linear`, and its heads
are consecutive blocks of rows; in the output layer they are blocks of columns. An implementation
may keep several projections in one tensor, the heads in another order, or the tensors transposed.
Packing is linear and invertible, so it maps gradients as well as parameters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headcheck.properties.parts import WEIGHTS
from headcheck.properties.parts.relative import PAIRED, SQUARE
from headcheck.properties.parts.weight import BY_HEAD as BY_HEAD
from headcheck.properties.parts.weight import COLUMNS as COLUMNS
from headcheck.properties.parts.weight import HeadSizes as HeadSizes
from headcheck.properties.parts.weight import Packing as Packing
from headcheck.properties.parts.weight import Weight

if TYPE_CHECKING:  # so that listing exercises does not import torch
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class ParameterMapping:
    """One tensor of the implementation and the canonical parameters packed into it.

    `path` is an attribute path. If it contains `{head}`, the number of a head, there is one tensor
    per head, which holds only that head's rows, or its columns of an output layer.
    """

    path: str
    holds: tuple[str, ...]
    transposed: bool = False
    packing: Packing = Packing.ROWS

    @property
    def is_bias(self) -> bool:
        return self.holds[0] in ("b_q", "b_k", "b_v")

    @property
    def is_output(self) -> bool:
        """Whether the tensor belongs to the output layer, whose heads are columns."""
        return self.holds[0].endswith("_o")

    @property
    def is_shared(self) -> bool:
        """Whether heads may share all parameters in the tensor."""
        return all(name[-1] in "kv" for name in self.holds)

    @property
    def _is_transposed_matrix(self) -> bool:
        return self.transposed and self.holds[0].startswith("W_")

    def compute_shape(self, sizes: HeadSizes, head: int | None) -> tuple[int, ...]:
        """Return the shape of the tensor; if a head is given, the shape of this head's tensor."""
        whole, first = head is None or self.is_output, WEIGHTS[self.holds[0]]
        counts = [WEIGHTS[name].heads(sizes) for name in self.holds]
        parts = zip(self.holds, counts if whole else [1] * len(counts), strict=True)
        rows = sum(WEIGHTS[name].rows(sizes) * count for name, count in parts)
        if self.packing is Packing.HEADWISE:
            rows = sizes.heads
        if self.is_output and sizes.d_output:
            rows = sizes.d_output
        if first.is_per_head:
            return self._shape_of_sinks(rows)
        if first.columns is None:
            stacked = self.packing in BY_HEAD and not self.is_output
            return self._shape_by_head(counts[0], sizes.head_dim) if stacked else (rows,)
        columns = first.columns(sizes)
        if self.is_output:
            columns = sizes.d_out if head is None else sizes.head_dim
        if self.packing is Packing.STACKED:
            matrix = (rows, sizes.head_dim) if self.is_output else (sizes.head_dim, columns)
            return (counts[0], *(reversed(matrix) if self.transposed else matrix))
        if self.packing is Packing.BETWEEN:
            inner = (columns, counts[0], sizes.head_dim)
            if self.is_output:
                inner = (sizes.head_dim, sizes.heads, rows)
            return inner if self.transposed else (inner[2], inner[1], inner[0])
        if self.packing in SQUARE:
            return self._shape_of_square(math.isqrt(rows), columns)
        shape = (columns, rows) if self.transposed else (rows, columns)
        return (*shape, *(1,) * self.packing.kernel_axes)

    def _shape_of_square(self, side: int, heads: int) -> tuple[int, ...]:
        if self.packing is Packing.GRID:
            return side, side, heads
        return (*(1,) * (self.packing is Packing.ONE_PAIRED), heads, side, side)

    def _shape_of_sinks(self, heads: int) -> tuple[int, ...]:
        if self.packing is Packing.BROADCAST:
            return (1, heads, 1, 1)
        return (heads, *(1,) * self.packing.kernel_axes)

    def _shape_by_head(self, heads: int, width: int) -> tuple[int, ...]:
        """Return the shape of a vector for each head."""
        if self.packing not in COLUMNS:
            return heads, width
        return (*(1,) * (self.packing is Packing.ONE_COLUMN), heads, 1, width)

    def pack(self, tensors: Sequence[Tensor], sizes: HeadSizes, head: int | None) -> Tensor:
        """Pack canonical tensors as the implementation stores them.

        A layer that reads a wider context than tokens are gets zeros for its further numbers, and
        so does an output layer that gives more numbers than the heads have.
        """
        import torch

        tensors = [_widen(t, WEIGHTS[n], sizes) for n, t in zip(self.holds, tensors, strict=True)]
        if head is not None and self.holds != ("b_o",):
            rows = WEIGHTS[self.holds[0]].rows(sizes)
            own = slice(head * rows, (head + 1) * rows)
            tensors = [t[:, own] if self.is_output else t[own] for t in tensors]
        match self.packing:
            case Packing.HEADS:
                split = [_split_heads(t, self._count_groups(sizes)) for t in tensors]
                packed = torch.cat(split, dim=1).flatten(0, 1)
            case Packing.INTERLEAVED:
                named = zip(self.holds, tensors, strict=True)
                parts = [self._interleave(t, WEIGHTS[name].heads(sizes)) for name, t in named]
                packed = torch.cat(parts)
            case Packing.STACKED:
                packed = self._stack(tensors[0], WEIGHTS[self.holds[0]].heads(sizes))
            case Packing.BETWEEN:
                return self._put_between(tensors[0], WEIGHTS[self.holds[0]].heads(sizes))
            case Packing.BROADCAST:
                return tensors[0].view(1, -1, 1, 1)
            case Packing.COLUMN | Packing.ONE_COLUMN:
                return tensors[0].reshape(self.compute_shape(sizes, None))
            case Packing.GRID:
                return tensors[0].reshape(self.compute_shape(sizes, None))
            case Packing.PAIRED | Packing.ONE_PAIRED:
                return tensors[0].T.reshape(self.compute_shape(sizes, None))
            case _:
                packed = torch.cat(list(tensors))
        packed = packed.mT if self._is_transposed_matrix else packed
        is_kernel = packed.dim() == 2 or WEIGHTS[self.holds[0]].is_per_head
        kernel = (1,) * self.packing.kernel_axes if is_kernel else ()
        return packed.view(*packed.shape, *kernel)

    def unpack(self, stored: Tensor, sizes: HeadSizes) -> list[Tensor]:
        """Return the canonical tensors, in the order of `holds`: the inverse of `pack`."""
        kernel = self.packing.kernel_axes
        if WEIGHTS[self.holds[0]].is_per_head:
            return [stored.flatten()]
        if self.packing is Packing.BETWEEN:
            return [self._take_between(stored)]
        if self.packing in COLUMNS:
            return [stored.flatten()]
        if self.packing is Packing.GRID:
            return [stored.flatten(0, 1)]
        if self.packing in PAIRED:
            return [stored.flatten(0, -3).flatten(1).T]
        stored = stored.flatten(1) if kernel and stored.dim() == 2 + kernel else stored
        stored = stored.mT if self._is_transposed_matrix else stored
        match self.packing:
            case Packing.HEADS:
                groups = self._count_groups(sizes)
                rows = [self._count_rows(name, sizes) // groups for name in self.holds]
                parts = stored.unflatten(0, (groups, -1)).split(rows, dim=1)
                return [part.flatten(0, 1) for part in parts]
            case Packing.INTERLEAVED:
                named = zip(self.holds, self._split(stored, sizes), strict=True)
                return [self._deinterleave(t, WEIGHTS[name].heads(sizes)) for name, t in named]
            case Packing.STACKED:
                return [self._unstack(stored)]
            case _:
                return self._split(stored, sizes)

    def _count_groups(self, sizes: HeadSizes) -> int:
        """Return how many parts a tensor of all heads has; heads that share form one part."""
        return min(WEIGHTS[name].heads(sizes) for name in self.holds)

    @staticmethod
    def _count_rows(name: str, sizes: HeadSizes) -> int:
        return WEIGHTS[name].rows(sizes) * WEIGHTS[name].heads(sizes)

    def _split(self, stored: Tensor, sizes: HeadSizes) -> list[Tensor]:
        """Cut a tensor into the parameters it holds; a single head's tensor has equal parts."""
        rows = [self._count_rows(name, sizes) for name in self.holds]
        return list(stored.split(rows) if sum(rows) == len(stored) else stored.chunk(len(rows)))

    def _interleave(self, tensor: Tensor, heads: int) -> Tensor:
        if self.is_output:
            return tensor if tensor.dim() == 1 else _swap_columns(tensor, (heads, -1))
        return _split_heads(tensor, heads).transpose(0, 1).flatten(0, 1)

    def _deinterleave(self, tensor: Tensor, heads: int) -> Tensor:
        if self.is_output:
            return tensor if tensor.dim() == 1 else _swap_columns(tensor, (-1, heads))
        split: Tensor = tensor.unflatten(0, (-1, heads))
        return split.transpose(0, 1).flatten(0, 1)

    def _stack(self, tensor: Tensor, heads: int) -> Tensor:
        if self.is_output:
            return tensor if tensor.dim() == 1 else _split_heads(tensor.T, heads).mT
        return _split_heads(tensor, heads)

    def _put_between(self, tensor: Tensor, heads: int) -> Tensor:
        if tensor.dim() == 1:
            return tensor if self.is_output else _split_heads(tensor, heads)
        split: Tensor = (
            tensor.unflatten(1, (heads, -1))
            if self.is_output
            else _split_heads(tensor, heads).transpose(0, 1)
        )
        return split.transpose(0, 2) if self.transposed else split

    def _take_between(self, stored: Tensor) -> Tensor:
        if stored.dim() < 3:
            return stored.flatten()
        whole = stored.transpose(0, 2) if self.transposed else stored
        return whole.flatten(1) if self.is_output else whole.transpose(0, 1).flatten(0, 1)

    def _unstack(self, stored: Tensor) -> Tensor:
        if self.is_output:
            return stored if stored.dim() == 1 else stored.transpose(0, 1).flatten(1)
        return stored.flatten(0, 1)


def _widen(tensor: Tensor, weight: Weight, sizes: HeadSizes) -> Tensor:
    """Append columns of zeros to a layer that reads more numbers than a token has.

    To an output layer that gives more numbers than the heads have, append rows of zeros.
    """
    import torch

    if weight.name.endswith("_o") and sizes.d_output:
        beyond = tensor.new_zeros(sizes.d_output - len(tensor), *tensor.shape[1:])
        return torch.cat([tensor, beyond])
    if weight.columns is None or not sizes.d_context:
        return tensor
    missing = weight.columns(sizes) - tensor.shape[1]
    return torch.nn.functional.pad(tensor, (0, missing)) if missing > 0 else tensor


def _split_heads(tensor: Tensor, heads: int) -> Tensor:
    """Cut rows into a block for each head."""
    split: Tensor = tensor.unflatten(0, (heads, -1))
    return split


def _swap_columns(tensor: Tensor, sizes: tuple[int, int]) -> Tensor:
    """Swap the two axes that the columns consist of."""
    split: Tensor = tensor.unflatten(1, sizes)
    return split.transpose(1, 2).flatten(1)
