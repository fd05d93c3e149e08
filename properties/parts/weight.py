"""The parameters of attention in their canonical layout: how each is shaped, drawn and stored.

Canonically a projection is one matrix of shape (out, in), as in `torch.nn.Linear`, and its heads
are consecutive blocks of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # so that listing exercises does not import torch
    from torch import Tensor

    from headcheck.properties.contracts.contract import Contract
    from headcheck.properties.terms.case import Case


class Packing(StrEnum):
    """The order of projections, and of their heads, in a tensor."""

    ROWS = "each projection whole, one after the other"
    HEADS = "for each head its part of every projection; for heads that share, of all of them"
    INTERLEAVED = "each projection with its heads interleaved"
    STACKED = "one matrix for each head"
    CONVOLUTION = "as rows, with a kernel axis of length 1"
    IMAGE_CONVOLUTION = "as rows, with two kernel axes of length 1"
    BETWEEN = "the heads between the width of tokens and that of a head"
    BROADCAST = "one number for each head, with axes of length 1 for batch, queries and keys"
    COLUMN = "one vector for each head, with an axis of length 1 for tokens"
    ONE_COLUMN = "as column, with an axis of length 1 for the batch"
    PAIRED = "a matrix of queries and keys, or of offsets, for each head"
    ONE_PAIRED = "as paired, with an axis of length 1 for the batch"
    GRID = "a matrix of offsets with a number for each head"
    HEADWISE = "one row for each head, as of a gate that opens for a whole head"

    @property
    def kernel_axes(self) -> int:
        """How many additional axes of length 1 a matrix has."""
        return {Packing.CONVOLUTION: 1, Packing.IMAGE_CONVOLUTION: 2}.get(self, 0)


COLUMNS = (Packing.COLUMN, Packing.ONE_COLUMN)
"""packings of vectors that broadcast to tokens which are cut into heads"""
BY_HEAD = (Packing.STACKED, Packing.BETWEEN, *COLUMNS)
"""packings whose tensors have an axis for heads"""


@dataclass(frozen=True, slots=True)
class HeadSizes:
    """The sizes that determine the shape of a tensor."""

    d_in: int
    heads: int
    head_dim: int
    kv_heads: int
    d_latent: int = 0
    """the width of the latent of keys and values, if there is one"""
    rope_dim: int = 0
    d_context: int = 0
    """the width of the tokens of keys and values, if they have their own"""
    d_output: int = 0
    """the width of the output, if it is not that of all heads together"""
    d_hidden: int = 0
    """the width of a feed-forward between its layers"""
    buckets: int = 0
    """how many buckets of distances there are, if scores get a number for each"""
    maps: int = 1
    """how many softmaxes each head has, between which its coordinates are divided"""
    gains_by_head: bool = False
    """whether each head has a gain of its own in the norms of queries and keys"""
    head_gains_by_head: bool = False
    """whether each head has a gain of its own in the norm of what heads give"""

    @property
    def d_out(self) -> int:
        return self.heads * self.head_dim


class Draws(Protocol):
    """Draws the numbers of a case's parameters, each parameter from a stream of its own."""

    @property
    def case(self) -> Case: ...

    @property
    def contract(self) -> Contract: ...

    @property
    def spread(self) -> float:
        """The factor of queries and keys under which scores are as large as the case wants."""
        ...

    def vector(self, name: str, length: int) -> Tensor:
        """Draw standard normal numbers."""
        ...

    def matrix(self, name: str, rows: int, columns: int, factor: float = 1.0) -> Tensor:
        """Draw a layer whose results have standard deviation `factor` for normal inputs."""
        ...


def one(sizes: HeadSizes) -> int:
    """Count a parameter that is not cut into heads."""
    return 1


def heads(sizes: HeadSizes) -> int:
    """Count the heads of queries."""
    return sizes.heads


def kv_heads(sizes: HeadSizes) -> int:
    """Count the heads of keys and values."""
    return sizes.kv_heads


def head_dim(sizes: HeadSizes) -> int:
    """Return the width of a head."""
    return sizes.head_dim


def d_in(sizes: HeadSizes) -> int:
    """Return the width of a token."""
    return sizes.d_in


@dataclass(frozen=True, slots=True)
class Weight:
    """A canonical parameter. Its draw decides what is learnt from a case, and stays as it is."""

    name: str
    stream: int
    """the number of its random stream; a new parameter takes the next free number"""
    draw: Callable[[Draws], Tensor]
    heads: Callable[[HeadSizes], int] = heads
    """how many heads it has"""
    rows: Callable[[HeadSizes], int] = head_dim
    """how many rows each head has"""
    columns: Callable[[HeadSizes], int] | None = None
    """the width of what the layer reads; None if it is a vector"""
    needs: tuple[str, ...] = ()
    """the parameters that a module has if it has this one"""
    packings: tuple[Packing, ...] = ()
    """the ways in which it may be stored, if not every way makes sense"""
    is_optional: bool = True
    """whether attention may have the part without this parameter"""
    words: str = ""
    """what it holds, in a drafted statement: "the sinks, a number for each head" """
    write_shape: Callable[[Contract], str] | None = None
    """returns its shape in a drafted statement, unless it is a layer or a number for each head"""
    is_named: Callable[[str], object] | None = None
    """tests a path in a class without a contract; None if such classes are not searched for it"""
    tried: tuple[Packing, ...] = ()
    """the packings in which it is searched for, if these are not `packings`"""
    make_example: Callable[[HeadSizes], Sequence[object]] | None = None
    """returns its numbers in worked examples, nested in rows; None if it is left out"""
    show_example: Callable[[Sequence[str]], str] | None = None
    """names these numbers, a number for each head, beside the sizes of an example"""

    @property
    def is_per_head(self) -> bool:
        """Whether it has one number for each head."""
        return self.columns is None and self.rows is one and self.heads is not one
