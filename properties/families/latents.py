"""Latent attention: a few numbers of each token make the keys and values of all heads.

A cache keeps only these numbers and one rotating key that all heads share, so its size does not
depend on the number of heads.

Source: DeepSeek-AI 2024, "DeepSeek-V2", section 2.1 (arXiv:2405.04434).
"""

from headcheck.properties.cases.case_tensors import make_tokens
from headcheck.properties.cases.case_transforms import with_values
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.families.contract import FORM, the_weights_are_registered_and_trainable
from headcheck.properties.families.decoding import (
    SOME_TOKENS,
    assert_kept,
    one_token_at_a_time_gives_the_same_output,
    several_tokens_at_a_time_give_the_same_output,
)
from headcheck.properties.families.values import it_equals_the_equation
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.subject import Chunk
from headcheck.properties.violations.violation import Violation, ViolationKind

cache = PropertyFamily(PropertyGroup.CACHE, FORM)
TOKENS = 256
"""a number of tokens at which everything else in a cache is small"""
MANY_HEADS = with_values(
    batch=1, tokens=TOKENS, context_length=TOKENS, d_in=2, heads=16, head_dim=2, d_latent=2,
    rope_dim=2, dtype="float64",
)  # fmt: skip
"""a case in which the keys of all heads have eight times as many numbers as the latents"""


@cache(
    C.LATENT,
    C.CACHE,
    on=SOME_TOKENS,
    after=(
        one_token_at_a_time_gives_the_same_output,
        the_weights_are_registered_and_trainable,
        it_equals_the_equation,
    ),
    limit=2,
    dtypes=("float64",),
    hint="what does the cache hold: latents and rotated keys, or tokens?",
    essential=True,
)
def kept_latents_and_turned_keys_are_not_computed_again(context: LiveContext) -> None:
    """Latents and rotated keys of earlier tokens are not computed again, even if layers change."""
    assert_kept(context, "W_down", "W_kr")


@cache(
    C.LATENT,
    C.HANDED_CACHE,
    C.WIDTHS,
    on=MANY_HEADS,
    after=(it_equals_the_equation, several_tokens_at_a_time_give_the_same_output),
    limit=1,
    dtypes=("float64",),
    essential=True,
    hint="from which part of a token do the keys and values come?",
)
def a_cache_holds_less_than_keys_of_all_heads(context: LiveContext) -> None:
    """For each token a cache holds the latent and the rotated key, not the keys of all heads."""
    x, allowed = make_tokens(context.case, context.contract), TOKENS * context.case.d_out
    chunks = [Chunk(x[:, :1], None), Chunk(x[:, 1:], 0)]
    kept = context.adapter.decode(chunks, counted=True)[-1].kept
    if kept >= allowed:
        what = f"a cache of {TOKENS} tokens"
        raise Violation(ViolationKind.VALUE, f"fewer than {allowed} numbers", f"{kept}", what)
