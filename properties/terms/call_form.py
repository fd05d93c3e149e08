"""How a module is called and what it returns, if that differs from the usual.

Usually `forward` takes tokens of shape (batch, tokens, width) and perhaps a mask in which zero or
False means "must not attend", and returns the output, perhaps with the weights. Other modules take
queries, keys and values separately, order the axes differently, use a mask in which True means
"must not attend", or return more. A call form describes this as data. The worker converts the call
itself (`grader/sandbox/worker/call_hooks.py`), so that every request to a module goes through it.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from types import MappingProxyType

from headcheck.properties.terms.case import Case, MaskForm


class TokenAxes(StrEnum):
    """The axes of an input and of the output, in order; "width" is the width of a token."""

    BATCH_FIRST = "batch tokens width"
    TOKENS_FIRST = "tokens batch width"
    WIDTH_FIRST = "batch width tokens"  # as convolutions take it
    IMAGE = "batch width rows columns"  # every pixel is a token
    IMAGE_BESIDE_CONTEXT = "batch channels rows columns"  # so are the pixels of queries alone
    FRAMES = "batch frames tokens width"  # the tokens of a frame attend to one another
    WINDOW = "batch rows columns channels"  # an image is one window
    HEADS_FIRST = "batch heads tokens width"  # cut into heads, the width is that of one
    HEADS_SECOND = "batch tokens heads width"

    @property
    def are_cut(self) -> bool:
        """Whether tokens are already cut into heads."""
        return "heads" in self


class Polarity(StrEnum):
    """The meaning of the entries of a mask."""

    KEEP = "keep"  # true or nonzero where a query may attend
    BLOCK = "block"  # true or nonzero where it may not
    ADDED = "added"  # zero where it may attend, and a large negative number elsewhere


class MaskSource(StrEnum):
    """What a call is given, from which the module makes its mask."""

    MASK = "mask"
    LENGTHS = "lengths"  # how many of the first keys a sequence, or a query, may attend to
    DOCUMENTS = "documents"  # the number of each token's document: tokens see their own document
    BOUNDARIES = "boundaries"  # where documents begin, and last where the last one ends

    @property
    def is_of_documents(self) -> bool:
        """Whether it says which tokens belong together."""
        return self in (MaskSource.DOCUMENTS, MaskSource.BOUNDARIES)


class Given(StrEnum):
    """What an argument of `forward` besides tokens and a mask is given in every call."""

    NONE = "none"
    ZERO = "zero"
    FALSE = "false"
    TRUE = "true"
    POSITIONS = "positions"  # (batch, tokens), from 0
    POSITION_ROW = "position row"  # (tokens,), from 0
    # Rotary angles of shape (tokens, head_dim / 2), or (tokens, head_dim) where they are doubled.
    ANGLES = "angles"
    COMPLEX = "complex angles"
    COMPLEX_PAIRS = "complex angles as pairs"  # with a last axis for cosine and sine
    COSINES = "cosines"
    SINES = "sines"
    COSINES_OF_HALVES = "cosines of halves"
    SINES_OF_HALVES = "sines of halves"
    COSINES_OF_PAIRS = "cosines of pairs"
    SINES_OF_PAIRS = "sines of pairs"
    BOTH = "cosines and sines"  # a tuple of both
    BOTH_OF_HALVES = "cosines and sines of halves"  # each of shape (1, tokens, head_dim)


class Taken(StrEnum):
    """What an argument of a method that begins a sequence is given, or of a class for caches."""

    BATCH = "batch"
    LENGTH = "context_length"  # the longest length, or a longer one than any call needs
    HEADS = "heads"
    KV_HEADS = "kv_heads"
    HEAD_DIM = "head_dim"
    WIDTH = "d_out"
    WINDOW = "window"
    LAYERS = "layers"  # more than there are
    DTYPE = "dtype"  # that of the tokens
    DEVICE = "device"


MORE_LAYERS = 4
"""how many layers a cache is made for, of which attention alone is the first"""
OF_CALLS = frozenset({Taken.BATCH, Taken.DTYPE, Taken.DEVICE})
"""what the tokens of a call say"""


class EmptyRow(StrEnum):
    """The output of a query that may attend to nothing."""

    ANYTHING = "anything"  # NaN, too: nothing is promised
    FINITE = "finite numbers"
    ZEROS = "zeros"  # from every head: the output is the output layer's bias


@dataclass(frozen=True, slots=True)
class MaskConvention:
    """How a mask is passed. Masks are made in the usual convention and then converted."""

    polarity: Polarity = Polarity.KEEP
    dtype: str | None = None
    """the dtype by name; None means the mask's own, or that of the tokens for an added mask"""
    axes: int | None = None
    """how many of the axes (batch, heads, queries, keys) are passed, counted from the last; None
    means any number"""
    keys_only: bool = False
    """whether the mask is the same for all queries, so that it has no axis for queries or one of
    length 1
    """
    fill: float = -math.inf
    """the number that hides a key in an added mask"""
    required: bool = False
    """whether every call needs a mask"""
    argument: str | None = None
    """the name of the argument, if the mask is passed by name"""
    empty_row: EmptyRow = EmptyRow.ANYTHING
    """the promised output of a query that may attend to nothing"""
    given_as: MaskSource = MaskSource.MASK
    """what a call is given, if the module makes the mask from something else"""
    in_turn: bool = False
    """whether the sequences of a batch take the masks in turn, as the windows of several images do;
    then only the first ones are passed, which repeat"""

    @property
    def forms(self) -> tuple[MaskForm, ...]:
        """The forms of usual masks that can be converted to this convention; empty if all can."""
        if self.given_as.is_of_documents:
            return (MaskForm.BATCH_ONE_QUERY_KEY,)
        if self.keys_only:
            return (MaskForm.BATCH_ONE_ONE_KEY,)
        if self.given_as is MaskSource.LENGTHS:
            return (MaskForm.BATCH_ONE_QUERY_KEY, MaskForm.BATCH_ONE_ONE_KEY)
        match self.axes:
            case 2:
                return (MaskForm.QUERY_KEY, MaskForm.ONE_ONE_QUERY_KEY)
            case 3:
                return (MaskForm.BATCH_ONE_QUERY_KEY, MaskForm.QUERY_KEY)
        return ()


@dataclass(frozen=True, slots=True)
class CacheConvention:
    """How keys and values of earlier tokens pass from one call to the next.

    Either the caller passes them: a call takes None or the cache of an earlier call, and returns
    its own. Or the module keeps them until another sequence begins. Then what calls are given for
    the positions of their tokens goes on where the last call ended.
    """

    argument: str = "cache"
    """the argument that takes the cache, or takes True if the module keeps it; "" if a module keeps
    it without being asked to"""
    place: int = 1
    """the place of the cache among the results, if the caller passes it"""
    reset: str | None = None
    """the method that clears the cache, or sets it up, if the module keeps it"""
    reset_takes: Mapping[str, Taken] | None = None
    """what this method is given, or else the class that makes a cache, by name"""
    made_by: str | None = None
    """the class that makes an empty cache: one of the submission, or a dict, into which the module
    then writes, or a tuple, instead of which it returns its own; None begins with None"""
    beside_weights: bool = False
    """whether calls return the weights, too; of calls with a cache only the output is compared"""

    @property
    def is_kept(self) -> bool:
        """Whether the module keeps the cache."""
        return self.reset is not None or not self.argument


@dataclass(frozen=True, slots=True)
class CallForm:
    """The inputs of a call in order, and the places of the results among the returned values.

    An input is "x", the tokens; "query", "key" or "value", which are all the tokens in
    self-attention; "context", the tokens to which queries attend; or "mask".
    """

    inputs: tuple[str, ...] = ("x", "mask")
    axes: TokenAxes = TokenAxes.BATCH_FIRST
    mask: MaskConvention = MaskConvention()
    places: tuple[int, ...] | None = None
    """the places of the results among the returned values; None if the returned values are the
    results, in order
    """
    one_head: bool = False
    """whether returned weights lack the axis for heads"""
    cache: CacheConvention | None = None
    """how a call continues a sequence, if it can"""
    given: Mapping[str, Given] | None = None
    """what other arguments of every call are given, by name"""
    without_weights: Mapping[str, int | float | bool | str] | None = None
    """the arguments, by name, of a call that requests no attention weights"""
    reset: str | None = None
    """the method that is called before every call, so that it does not continue earlier ones"""
    forgets: str | None = None
    """the attribute of the module, or of a part of it, that is set to None before every call"""
    cleared: tuple[str, ...] = ()
    """the paths of tensors that are set to zero before every call, for the same reason"""
    bypassed: tuple[str, ...] = ()
    """the paths of norms of tokens that every call leaves out"""
    silenced: tuple[str, ...] = ()
    """the paths of the weights of feed-forwards, which are zeros in every module"""
    context_argument: str | None = None
    """the argument that takes the context, if it is passed by name"""
    adds_tokens: bool = False
    """whether the module adds its tokens to the output, so that they are taken off again"""
    joins_queries: bool = False
    """whether the module appends the queries' tokens to the context, and attends to both; a
    sequence alone is given with an empty context"""
    beside: MaskConvention | None = None
    """another mask that every call is given by name, which hides nothing"""
    is_lazy: bool = False
    """whether layers take the width of their input from a first call, such as `nn.LazyLinear`"""
    wide_output: bool = False
    """whether the output is as wide as the tokens, which are wider than all heads together; only as
    many of its numbers as the heads give are compared"""

    def to_meta(
        self,
        heads: int,
        numbers: Mapping[str, object] = MappingProxyType({}),
        kv_heads: int | None = None,
        rotation: Mapping[str, object] = MappingProxyType({}),
        context_width: int = 0,
        width: int = 0,
        sizes: Mapping[str, int] = MappingProxyType({}),
        output_width: int = 0,
    ) -> Mapping[str, object] | None:
        """Return the call form as data for a request with this many heads; None for the usual form.

        A function gets the `numbers` after the tensors in each call. If it gets keys and values cut
        into fewer heads, these are the first `kv_heads`. `rotation` has the frequencies of tables
        that calls are given. A wider context than the tokens has a `context_width`. Lazy layers
        take the `width` of the tokens. A method that
        begins a sequence is given `sizes`. A wide output is cut to `output_width`.
        """
        if self == USUAL:
            return None
        passed = {"numbers": list(numbers.values())} if numbers else {}
        shared = {} if kv_heads in (None, heads) else {"kv_heads": kv_heads}
        data = asdict(self)
        for mask in filter(None, (data["mask"], data["beside"])):
            mask["fill"] = str(mask["fill"])  # JSON knows no infinity
        tables = {"rotation": dict(rotation)} if self.given else {}
        wide = {"context_width": context_width} if context_width else {}
        first = {"width": width} if data.pop("is_lazy") else {}
        first |= {"output_width": output_width} if data.pop("wide_output") else {}
        if cache := data["cache"]:
            takes = cache["reset_takes"] or {}
            cache["reset_takes"] = {n: sizes.get(kind, kind) for n, kind in takes.items()}
        return {**data, "heads": heads, **passed, **shared, **tables, **wide, **first}


USUAL = CallForm()


def list_sizes(case: Case, *, is_limited: bool) -> dict[str, int]:
    """Return the sizes that a method is given which sets up a cache.

    A cache has room for more tokens than a call has, unless the length of sequences `is_limited`.
    """
    length = case.context_length if is_limited else 2 * case.tokens
    sizes = [kind for kind in Taken if kind not in OF_CALLS and kind is not Taken.LAYERS]
    found = {str(kind): int(getattr(case, kind)) for kind in sizes}
    return {
        **found,
        Taken.LENGTH: length,
        Taken.WINDOW: case.window or length,
        Taken.LAYERS: MORE_LAYERS,
    }
