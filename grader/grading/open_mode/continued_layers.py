"""Whether the calls of a layer or a model with a cache go on as a whole sequence does.

Where later tokens change nothing before them, the last tokens of a sequence get the same output in
calls of their own, if each is given the cache of the call before.
"""

import contextlib
import itertools
from dataclasses import replace

import torch
from torch import Tensor

from headcheck.grader.grading.open_mode.layer_claims import Claim, JudgedClaim
from headcheck.properties.binding.bench import is_close
from headcheck.properties.binding.building import construct
from headcheck.properties.binding.caches import EMPTY, PLACES, list_asking, names_cache
from headcheck.properties.binding.probe import CallProbe
from headcheck.properties.signatures.signature import Signature
from headcheck.properties.subject import CallResult, Chunk, Subject
from headcheck.properties.terms.call_form import CacheConvention, Given
from headcheck.properties.terms.group import PropertyGroup
from headcheck.properties.violations.violation import ignore_crashes

CONTINUED = Claim(
    "calls_with_a_cache_continue",
    "Tokens that come one by one, each with the cache of the call before, give the output of the "
    "whole sequence.",
    PropertyGroup.CACHE,
)
EXPECTED = "with a cache, the last two tokens give what they give in one call for all"


def judge_continued(subject: Subject, signature: Signature, probe: CallProbe) -> JudgedClaim | None:
    """Return whether calls continue each other; None if they take no cache, or cannot.

    Raises SubmissionFailed if its process ends.
    """
    optional = [p.name for p in signature.call if p.has_default and p.default is None]
    name = next(filter(names_cache, optional), None)
    if name is None or not probe.batched or not _keeps_tokens(probe):
        return None
    whole, begin = probe.seen.outputs[0], probe.seen.x.shape[1] - 2
    starts = itertools.product((None, *EMPTY), PLACES)
    caches = (CacheConvention(name, place, made_by=start) for start, place in starts)
    every = (_decode(subject, signature, probe, cache) for cache in caches)
    for first, later in filter(None, every):
        if is_close([first], whole[:, :begin].double()) and later.shape == whole[:, begin:].shape:
            if is_close([later], whole[:, begin:].double()):
                return JudgedClaim(CONTINUED)
            return JudgedClaim(CONTINUED, EXPECTED, "they give something else")
    return None


def _keeps_tokens(probe: CallProbe) -> bool:
    """Whether the first result has numbers for each token."""
    shapes = [output.shape for output in probe.seen.outputs[:1]]
    return any(len(s) == 3 and s[:2] == probe.seen.x.shape[:2] for s in shapes)


def _decode(
    subject: Subject, signature: Signature, probe: CallProbe, cache: CacheConvention
) -> tuple[Tensor, Tensor] | None:
    """Return the output of all tokens but two, and that of these, which come one by one."""
    asking = {p.name: Given.TRUE for p in list_asking(signature)}
    given = {**(probe.form.given or {}), **asking}
    form = replace(probe.form, places=(0,), cache=cache, given=given or None)
    x = probe.seen.x
    parts = x[:, :-2], x[:, -2:-1], x[:, -1:]
    results: tuple[CallResult, ...] = ()
    with ignore_crashes():
        module = construct(subject, signature.name, probe.built, form)
        module.write(probe.seen.stored)
        chunks = [Chunk(part, n - 1 if n else None) for n, part in enumerate(parts)]
        results = module.decode(chunks, counted=True)
    if not results or not results[0].kept:
        return None  # what began the sequence begins none
    first, *later = (result.outputs[0] for result in results)
    with contextlib.suppress(RuntimeError, IndexError):  # they are no outputs of tokens
        return first, torch.cat(later, dim=1)
    return None
