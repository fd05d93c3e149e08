"""The inputs of right and wrong attention: tokens, parameters, mask and sizes."""

from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor

from headcheck.reference.multi_head import Parameters
from headcheck.reference.variant import PLAIN, Variant

QKVTensors = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class AttentionInputs:
    """The input, parameters and mask from which attention is computed."""

    x: Float[Tensor, "batch tokens d_in"]
    parameters: Parameters
    heads: int
    may_attend: Bool[Tensor, "*#lead #tokens #tokens"] | None
    scale: float
    context_length: int
    causal: bool = False
    """whether the module has its own mask; otherwise the caller passes one"""
    wanted: tuple[str, ...] = ("output",)
    """names of the results to return: `output`, `weights`, `logsumexp`, or the `matrix` of the only
    head's weights"""
    variant: Variant = PLAIN
    """the steps of the attention in addition to the plain ones"""
    window: int = 0
    """the most tokens that each token may see; 0 for all"""
    block: int = 0
    """how many keys are computed at a time; 0 for all"""
    others: tuple[Float[Tensor, "batch others d_in"], ...] = ()
    """the tokens of keys and values in cross-attention: one tensor for both, or two; empty if they
    are x
    """

    @property
    def d_in(self) -> int:
        """The width of a token."""
        return self.x.shape[-1]

    @property
    def tokens(self) -> int:
        """The length of a sequence."""
        return self.x.shape[-2]

    @property
    def sources(self) -> QKVTensors:
        """The tokens from which queries, keys and values are made."""
        return (self.x, self.others[0], self.others[-1]) if self.others else (self.x,) * 3

    @property
    def keys(self) -> int:
        """The length of the sequence to which queries attend."""
        return self.sources[1].shape[-2]

    @property
    def earlier(self) -> int:
        """How many keys precede the first query's own key: causal queries are the last tokens."""
        return self.keys - self.tokens if self.causal else 0

    @property
    def d_out(self) -> int:
        """The width of all heads together."""
        return self.parameters.W_q.shape[0]

    @property
    def head_dim(self) -> int:
        """The width of one head."""
        return self.d_out // self.heads

    @property
    def kv_heads(self) -> int:
        """The number of heads of keys and values: smaller than `heads` if heads share them."""
        return self.parameters.W_k.shape[0] // self.head_dim

    @property
    def width(self) -> int:
        """How many numbers of a query are compared with a key: half of a head with two maps.

        With latents these are a head's own coordinates and the rotating ones beside them.
        """
        own = self.head_dim if self.parameters.lambdas is None else self.head_dim // 2
        return own + self.variant.beside
