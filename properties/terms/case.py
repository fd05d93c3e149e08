"""A case: all variable inputs of one check, as a few small values and one seed.

A case holds no tensor. `properties.cases.case_tensors` derives the same tensors from it every time,
so a case prints in one line, can be replayed anywhere, and shrinks well.
"""

import math
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any


class InputContent(StrEnum):
    """The kind of tokens in the input."""

    NORMAL = "normal"
    REPEATED = "repeated tokens"
    ZERO = "a token of zeros"
    OUTLIER = "an outlier token"
    EQUAL = "equal tokens"
    ALL_ZERO = "only tokens of zeros"
    SUBNORMAL = "a subnormal token"
    HUGE = "huge tokens"


class MemoryLayout(StrEnum):
    """How the input is laid out in memory; the layout does not change its values.

    The exception is an expanded batch: its sequences share memory, so all of them equal the first.
    """

    CONTIGUOUS = "contiguous"
    TRANSPOSED = "transposed"
    EXPANDED = "expanded"
    SLICED = "sliced"  # out of a wider tensor, as queries out of a fused projection
    MISALIGNED = "misaligned"  # its storage starts one number earlier


class MaskForm(StrEnum):
    """The shape of the mask for `forward`; each broadcasts to (batch, heads, tokens, tokens)."""

    NONE = "no mask"
    QUERY_KEY = "(t, t)"
    ONE_ONE_QUERY_KEY = "(1, 1, t, t)"
    BATCH_ONE_QUERY_KEY = "(b, 1, t, t)"
    BATCH_HEAD_QUERY_KEY = "(b, h, t, t)"
    BATCH_ONE_ONE_KEY = "(b, 1, 1, t)"
    ONE_HEAD_QUERY_KEY = "(1, h, t, t)"


class MaskType(StrEnum):
    """The dtype of the mask; zero or False means "must not attend"."""

    BOOL = "bool"
    INT = "int64"
    FLOAT = "float32"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One set of sizes, options and a seed.

    `sharpness` is the standard deviation of the scaled scores: below 1 a wrong scale hides
    because all weights are nearly equal, above 8 because the softmax is saturated.
    """

    batch: int = 1
    tokens: int = 2
    context_length: int = 2
    d_in: int = 1
    heads: int = 1
    head_dim: int = 1
    group: int = 0
    """how many heads share keys and values; 0 if the case leaves it open"""
    window: int = 0
    """how many tokens each token may see, including itself; 0 if the case leaves it open"""
    softcap: float = 0.0
    """the largest size of a score; 0 for no limit"""
    d_latent: int = 0
    """the width of the latent of keys and values; 0 if the case leaves it open"""
    rope_dim: int = 0
    """how many coordinates rotate beside each head's own; 0 if the case leaves it open"""
    d_context: int = 0
    """the width of the tokens that are attended to, if they have their own; 0 if not"""
    block: int = 0
    """how many keys are computed at a time; 0 if the case leaves it open"""
    causal: bool = False
    """whether later tokens are hidden, if that is an option of calls"""
    bias: bool = False
    dropout: float = 0.0
    sharpness: int = 1
    content: InputContent = InputContent.NORMAL
    memory: MemoryLayout = MemoryLayout.CONTIGUOUS
    mask_form: MaskForm = MaskForm.NONE
    mask_type: MaskType = MaskType.BOOL
    dtype: str = "float64"
    device: str = "cpu"
    seed: int = 0

    def change(self, **changes: Any) -> "Case":
        """Return the case with other values of these fields; itself, to save time, if all agree."""
        changes = {name: value for name, value in changes.items() if value != getattr(self, name)}
        return replace(self, **changes) if changes else self

    @property
    def d_out(self) -> int:
        """The width of all heads together."""
        return self.heads * self.head_dim

    @property
    def temperature(self) -> float:
        """The root of a head's width, by which scores are divided."""
        return math.sqrt(self.head_dim)

    @property
    def scale(self) -> float:
        """What scores are multiplied by: one over the root of a head's width."""
        return 1 / self.temperature

    @property
    def side(self) -> int:
        """The side of a square window that has all places of a sequence."""
        return math.isqrt(self.context_length)

    @property
    def sides(self) -> tuple[int, int]:
        """The height and the width of such a window, which is as square as its number allows."""
        height = next(n for n in range(self.side, 0, -1) if self.context_length % n == 0)
        return height, self.context_length // height

    @property
    def kv_heads(self) -> int:
        """The number of heads that keys and values have."""
        return self.heads // max(1, self.group)

    @property
    def size(self) -> tuple[int, int]:
        """The sort key from small to large, so that the first failing case is nearly minimal."""
        width = max(self.d_in, self.d_out)
        changed = sum(getattr(self, field.name) != field.default for field in fields(self))
        return self.batch * self.tokens * width, changed

    def __str__(self) -> str:
        sizes = f"batch={self.batch} tokens={self.tokens} context_length={self.context_length} "
        widths = f"d_in={self.d_in} d_out={self.d_out} heads={self.heads} "
        rest = "".join(
            f"{text} "
            for text, shown in (
                (f"kv_heads={self.kv_heads}", self.group),
                (f"window={self.window}", self.window),
                (f"softcap={self.softcap:g}", self.softcap),
                (f"d_latent={self.d_latent}", self.d_latent),
                (f"rope_dim={self.rope_dim}", self.rope_dim),
                (f"d_context={self.d_context}", self.d_context),
                (f"block={self.block}", self.block),
                ("causal", self.causal),
                ("bias", self.bias),
                (f"dropout={self.dropout:g}", self.dropout),
                (self.content.value, self.content is not InputContent.NORMAL),
                (f"{self.memory.value} input", self.memory is not MemoryLayout.CONTIGUOUS),
                (f"{self.mask_type} mask {self.mask_form}", self.mask_form is not MaskForm.NONE),
            )
            if shown
        )
        return f"{sizes}{widths}{rest}{self.dtype} {self.device} seed={self.seed}"
