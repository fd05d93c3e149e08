"""A sequence that is processed in several calls gets the same outputs as in one call.

A causal output depends on nothing that comes later, so keys and values of earlier tokens can be
kept and need not be computed again (Pope et al. 2022, "Efficiently Scaling Transformer Inference",
section 3). Each property calls the module for chunks of sequences in some order, and compares the
results with the module's own answer to the whole sequence. Other properties check whether that
answer is right.

Sequences of different lengths are continued together with padding in front of the shorter ones. So
all prompts end at the same place, where the next tokens begin. The mask of each call says which of
all keys so far are padding (huggingface/transformers#22161).
"""

import contextlib
import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from headcheck.properties.cases.case_tensors import DTYPES, draw_normal, make_tokens, round_to_dtype
from headcheck.properties.cases.case_transforms import at_least, compose, with_values
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.families.contract import FORM, the_weights_are_registered_and_trainable
from headcheck.properties.families.padding import padding_is_invisible
from headcheck.properties.families.values import (
    it_equals_the_equation,
    no_dropout_means_no_difference,
)
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.harness.module_adapter import ModuleAdapter
from headcheck.properties.harness.steps import build_fresh_module
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.subject import Chunk
from headcheck.properties.terms.case import MaskForm
from headcheck.properties.violations.violation import SubmissionFailed, Violation, ViolationKind
from headcheck.reference import Parameters

if TYPE_CHECKING:
    from headcheck.properties.mistakes.recognisers.recogniser import DiagnosedMistake

family_property = PropertyFamily(PropertyGroup.CACHE, FORM)
SOME_TOKENS = compose(at_least(tokens=5), with_values(mask_form=MaskForm.NONE))
LARGE = (
    {"batch": 1, "tokens": 1030, "d_in": 3, "heads": 1, "head_dim": 2},
    {"batch": 9, "tokens": 7, "d_in": 3, "heads": 12, "head_dim": 2},
)
"""sizes with more tokens, sequences or heads than a cache of fixed size is likely to hold"""
LONGEST_CHUNK = 255
LONGEST_PADDING = 3
"""the most tokens of padding that a sequence has"""


cache_property = functools.partial(family_property, C.CACHE, on=SOME_TOKENS)


@cache_property(
    limit=4, hint="compare keys, values and mask with those of the whole sequence", essential=True
)
def one_token_at_a_time_gives_the_same_output(context: LiveContext) -> None:
    """With a cache, tokens that come one by one give the output of the whole sequence."""
    _assert_whole(context, (1,) * context.case.tokens)


continued_property = functools.partial(
    cache_property, after=(one_token_at_a_time_gives_the_same_output,), limit=2, essential=True
)


@continued_property(limit=4, hint="new tokens come after all kept tokens; which does each see?")
def several_tokens_at_a_time_give_the_same_output(context: LiveContext) -> None:
    """With a cache, parts of any length give the output of the whole sequence."""
    tokens = context.case.tokens
    _assert_whole(context, (2, tokens - 2))
    _assert_whole(context, (1, 2, *(1,) * (tokens - 5), 2))


@family_property(
    C.CACHE,
    C.STATED,
    after=(several_tokens_at_a_time_give_the_same_output, no_dropout_means_no_difference),
    on=compose(SOME_TOKENS, with_values(dropout=0.0)),
    limit=1,
    hint="does training differ in anything but dropout?",
)
def a_cache_is_used_in_training_too(context: LiveContext) -> None:
    """In training without dropout, a cache is returned and used as in evaluation."""
    parts = context.x.split([1, 2, context.case.tokens - 3], dim=1)
    chunks = [Chunk(part, number - 1 if number else None) for number, part in enumerate(parts)]
    output = torch.cat(decode(context, chunks, manner="in training"), dim=1)
    what = "output of calls in training with 1, 2 and all other tokens"
    context.assert_unchanged(output, context.output, context.tolerance, what)


@cache_property(
    after=(several_tokens_at_a_time_give_the_same_output,),
    sizes=LARGE,
    hint="does the code differ for many tokens, sequences or heads?",
)
def a_large_cache_is_right_too(context: LiveContext) -> None:
    """Outputs are also right with a cache of a thousand tokens, or of many sequences or heads."""
    first = min(LONGEST_CHUNK, context.case.tokens - 4)
    _assert_whole(context, (first, 1, 1, context.case.tokens - first - 3, 1))


@family_property(
    C.HANDED_CACHE,
    on=SOME_TOKENS,
    after=(one_token_at_a_time_gives_the_same_output,),
    limit=2,
    hint="a cache that was handed in is left as it is",
)
def a_cache_can_be_continued_twice(context: LiveContext) -> None:
    """The same cache can be continued twice, with different tokens."""
    prompt, first, second = context.x[:, :-2], context.x[:, -2:-1], context.x[:, -1:]
    other = torch.cat([prompt, _make_other_tokens(context)[:, -1:]], dim=1)
    # The first continuation goes on after the second has begun.
    chunks = [(prompt, None), (first, 0), (other[:, -1:], 0), (second, 1), (first, 0)]
    _, one, again, two, thrice = decode(context, [Chunk(*each) for each in chunks])
    begin = prompt.shape[1]
    _assert_part(context, other, again, begin, "the second time")
    _assert_part(context, context.x[:, :-1], thrice, begin, "the third time")
    _assert_part(context, context.x, torch.cat([one, two], dim=1), begin, "the first time")


@continued_property(hint="is something kept outside of the cache, or in a default?")
def sequences_keep_their_caches_apart(context: LiveContext) -> None:
    """Sequences that are continued in turn do not see each other; a later one sees none of them."""
    for fewer in (2, 0):  # of another length, and of the same
        other = _make_other_tokens(context)
        _assert_kept_apart(context, other[:, : other.shape[1] - fewer])


@continued_property(hint="is something kept outside of the cache, or in a default?")
def a_call_without_a_cache_begins_anew(context: LiveContext) -> None:
    """A call without a cache sees nothing of earlier sequences."""
    adapter = build_fresh_module(context)
    before = context.run_module(adapter=adapter)
    decode(context, [Chunk(context.x[:, :-2], None), Chunk(context.x[:, -2:], 0)], adapter)
    after = context.run_module(adapter=adapter)
    context.assert_outputs_unchanged(after, before, context.expected)


@continued_property(
    C.PROJECTED,
    C.UNCOMPRESSED,
    after=(
        one_token_at_a_time_gives_the_same_output,
        the_weights_are_registered_and_trainable,
        it_equals_the_equation,
    ),
    dtypes=("float64",),
    hint="what does the cache hold: keys and values, or the tokens?",
)
def kept_keys_and_values_are_not_computed_again(context: LiveContext) -> None:
    """Keys and values of earlier tokens are not computed again, even if the weights change."""
    assert_kept(context, "W_k", "W_v")


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
    padding = [
        number * LONGEST_PADDING // (context.case.batch - 1) for number in range(context.case.batch)
    ]
    x, mask = _shift(context, padding)
    for lengths in ((tokens - 2, 1, 1), (tokens - 3, 3), (4, *(1,) * (tokens - 4))):
        output = _decode_padded(context, x, mask, lengths)
        for number, count in enumerate(padding):
            got, alone = output[number, count:], context.output[number, : tokens - count]
            limit = context.tolerance[number, : tokens - count]
            calls = ", ".join(map(str, lengths))
            what = f"output of a sequence behind {count} of padding, in calls with {calls} tokens"
            context.assert_unchanged(got, alone, limit + limit, what)


def assert_kept(context: LiveContext, *names: str) -> None:
    """Raise Violation if the outputs of these layers for earlier tokens are computed again."""
    # Of tokens half as large they make the same, with weights twice as large.
    begin, p = context.case.tokens - 2, context.parameters
    doubled = replace(p, **{name: 2 * t for name, t in p.items() if name in names})
    halved = context.x.clone()
    halved[:, :begin] /= 2
    adapter = build_fresh_module(context)
    stored = dict(context.contract.to_stored(doubled, context.case))
    weights = {path: tensor.to(DTYPES[context.case.dtype]) for path, tensor in stored.items()}
    first, one, other = context.x[:, :begin], context.x[:, begin : begin + 1], context.x[:, -1:]
    results = adapter.decode([Chunk(first, None), Chunk(one, 0, weights), Chunk(other, 1)])
    outputs = torch.cat([result.outputs[0].double() for result in results[1:]], dim=1)
    _assert_part(context, halved, outputs, begin, "after a change", doubled)


def _assert_kept_apart(context: LiveContext, other: Tensor) -> None:
    """Raise Violation unless two sequences that are continued in turn get their right outputs."""
    x = context.x
    prompt, token, other_prompt, other_token = x[:, :-1], x[:, -1:], other[:, :-1], other[:, -1:]
    if context.contract.has(C.HANDED_CACHE):
        chunks = [(prompt, None), (other_prompt, None), (token, 0), (other_token, 1)]
        _, _, first, second = decode(context, [Chunk(*each) for each in chunks])
    else:  # the module keeps one cache, and forgets it when another sequence begins
        chunks = [(prompt, None), (token, 0), (other_prompt, None), (other_token, 2)]
        _, first, _, second = decode(context, [Chunk(*each) for each in chunks])
    _assert_part(context, x, first, x.shape[1] - 1, "of the first sequence")
    _assert_part(context, other, second, other.shape[1] - 1, "of the second sequence")


def _make_other_tokens(context: LiveContext) -> Tensor:
    return make_tokens(context.case, context.contract, "x2")


def decode(
    context: LiveContext,
    chunks: Sequence[Chunk],
    adapter: ModuleAdapter | None = None,
    manner: str = "usual",
) -> list[Tensor]:
    """Return the outputs of calls for chunks.

    A new module is called, unless `adapter` is given. Raises Violation if an output has the wrong
    form.
    """
    results = (adapter or build_fresh_module(context)).decode(chunks, manner=manner)
    for result, chunk in zip(results, chunks, strict=True):
        context.check_continued_form(result, chunk.tokens)
    return [result.outputs[0].double() for result in results]


def _assert_whole(context: LiveContext, lengths: tuple[int, ...]) -> None:
    """Raise Violation unless chunks of these lengths get the outputs of the whole sequence."""
    output = _decode_whole(context, lengths)
    what = f"output of calls with {', '.join(map(str, lengths))} tokens"
    for found in _recognise(context, lengths, output):
        told = "that of the whole sequence", f"what comes out if {found.words}", what
        raise Violation(ViolationKind.VALUE, *told, hint=found.hint, reason=found.mistake.name)
    context.assert_unchanged(output, context.output, context.tolerance, what)


def _decode_whole(context: LiveContext, lengths: tuple[int, ...]) -> Tensor:
    """Return the outputs for a sequence that comes in chunks of these lengths."""
    parts = context.x.split(list(lengths), dim=1)
    chunks = [Chunk(part, number - 1 if number else None) for number, part in enumerate(parts)]
    return torch.cat(decode(context, chunks), dim=1)


def _assert_part(
    context: LiveContext,
    x: Float[Tensor, "batch tokens d_in"],
    got: Float[Tensor, "batch rest d_out"],
    begin: int,
    which: str,
    parameters: Parameters | None = None,
) -> None:
    """Raise Violation unless these are the sequence's outputs from token `begin` on."""
    expected = context.compute_expected(x, parameters)
    rows = slice(begin, None)
    whole = context.run_module(x, parameters)[0]
    what = f"output from token {begin} on, {which}"
    context.assert_unchanged(got, whole[:, rows], expected.tolerances[0][:, rows], what)


def _recognise(
    context: LiveContext, lengths: tuple[int, ...], output: Tensor
) -> "tuple[DiagnosedMistake, ...]":
    """Return the mistake that gives this output, if any."""
    tokens = context.case.tokens
    uneven: tuple[tuple[int, ...], ...] = ((1, 2, 1, tokens - 4), (2, 1, tokens - 3))
    if _is_right(context, output):
        return ()
    outputs = {}
    with contextlib.suppress(SubmissionFailed, Violation):  # it has failed; this is to say how
        outputs = {each: _decode_whole(context, each) for each in uneven}
    if not outputs:
        return ()
    # A right answer loads no mistakes.
    from headcheck.properties.mistakes.recognisers.cached_calls import RECOGNISERS, CachedOutputs
    from headcheck.properties.mistakes.recognisers.recogniser import recognise

    return recognise(CachedOutputs(context, {lengths: output, **outputs}), RECOGNISERS)


def _is_right(context: LiveContext, output: Tensor) -> bool:
    off = (output - context.expected.outputs[0]).abs()
    return bool((off <= context.tolerance.float32).all())


def _shift(context: LiveContext, padding: list[int]) -> tuple[Tensor, Tensor]:
    """Return the sequences with this much padding in front, cut to equal lengths, and the mask."""
    drawn = draw_normal(context.case, "x2", *context.x.shape)
    x = round_to_dtype(drawn, context.case)
    mask = torch.ones(context.case.batch, 1, 1, context.case.tokens, dtype=torch.bool)
    for number, count in enumerate(padding):
        x[number, count:] = context.x[number, : context.case.tokens - count]
        mask[number, ..., :count] = False
    return x, mask


def _decode_padded(
    context: LiveContext, x: Tensor, mask: Tensor, lengths: tuple[int, ...]
) -> Tensor:
    """Return the outputs for padded sequences that come in chunks of these lengths."""
    chunks, end = list[Chunk](), 0
    for number, part in enumerate(x.split(list(lengths), dim=1)):
        end += part.shape[1]
        chunks.append(Chunk(part, number - 1 if number else None, mask=mask[..., :end]))
    return torch.cat(decode(context, chunks), dim=1)
