"""Sequences of different lengths are continued together: shorter ones have padding in front.

So all prompts end at the same place, where the next tokens begin. The mask of each call says which
of all keys so far are padding (huggingface/transformers#22161).
"""

import torch
from torch import Tensor

from headcheck.properties.cases.case_tensors import draw_normal, round_to_dtype
from headcheck.properties.cases.case_transforms import at_least, compose, with_values
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.families.contract import FORM
from headcheck.properties.families.decoding import decode, one_token_at_a_time_gives_the_same_output
from headcheck.properties.families.padding import padding_is_invisible
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.mistakes.steps.cached_calls import Lengths
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.subject import Chunk
from headcheck.properties.terms.case import MaskForm

family_property = PropertyFamily(PropertyGroup.CACHE, FORM)
C = Capability
LONGEST = 3
"""the most tokens of padding that a sequence has"""


@family_property(
    C.CACHE,
    C.PADDING,
    C.ANY_KEYS,
    C.TOKENS,
    on=compose(at_least(tokens=6, batch=2), with_values(mask_form=MaskForm.NONE)),
    after=(one_token_at_a_time_gives_the_same_output, padding_is_invisible),
    limit=3,
    hint="the mask is of all keys so far: which of them are padding?",
)
def padded_prompts_are_continued_as_each_alone(context: LiveContext) -> None:
    """With padding in front and a cache, each sequence gives the same outputs as alone."""
    tokens = context.case.tokens
    padding = [number * LONGEST // (context.case.batch - 1) for number in range(context.case.batch)]
    x, mask = _shift(context, padding)
    for lengths in ((tokens - 2, 1, 1), (tokens - 3, 3), (4, *(1,) * (tokens - 4))):
        output = _decode(context, x, mask, lengths)
        for number, count in enumerate(padding):
            got, alone = output[number, count:], context.output[number, : tokens - count]
            limit = context.tolerance[number, : tokens - count]
            calls = ", ".join(map(str, lengths))
            what = f"output of a sequence behind {count} of padding, in calls with {calls} tokens"
            context.assert_unchanged(got, alone, limit + limit, what)


def _shift(context: LiveContext, padding: list[int]) -> tuple[Tensor, Tensor]:
    """Return the sequences with this much padding in front, cut to equal lengths, and the mask."""
    drawn = draw_normal(context.case, "x2", *context.x.shape)
    x = round_to_dtype(drawn, context.case)
    mask = torch.ones(context.case.batch, 1, 1, context.case.tokens, dtype=torch.bool)
    for number, count in enumerate(padding):
        x[number, count:] = context.x[number, : context.case.tokens - count]
        mask[number, ..., :count] = False
    return x, mask


def _decode(context: LiveContext, x: Tensor, mask: Tensor, lengths: Lengths) -> Tensor:
    """Return the outputs for padded sequences that come in chunks of these lengths."""
    chunks, end = list[Chunk](), 0
    for number, part in enumerate(x.split(list(lengths), dim=1)):
        end += part.shape[1]
        chunks.append(Chunk(part, number - 1 if number else None, mask=mask[..., :end]))
    return torch.cat(decode(context, chunks), dim=1)
