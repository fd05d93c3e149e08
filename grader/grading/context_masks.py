"""Whether a mask hides the tokens of a context beside which queries see their own tokens.

The latents of a resampler attend to a context and to themselves. A mask covers the context alone,
so the class extends it, and may extend it at the wrong end. Tokens that are hidden change nothing,
so a call with the mask gives what a call without these tokens gives.

Source: Alayrac et al. 2022, Flamingo, appendix A.1.1 (arXiv:2204.14198), for latents beside a
context.
"""

import functools
from dataclasses import replace

import torch

from headcheck.grader.grading.claims import Claim, JudgedClaim
from headcheck.grader.grading.questions import FurtherQuestion
from headcheck.properties.binding.bench import Bench, is_close
from headcheck.properties.binding.calls import find_mask_name
from headcheck.properties.binding.followed_masks import iter_conventions
from headcheck.properties.binding.masks import add_mask
from headcheck.properties.binding.signature import Signature
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.terms.case import Case
from headcheck.properties.terms.group import PropertyGroup

CASE = Case(batch=1, tokens=7, context_length=7, d_in=12, heads=2, head_dim=6, sharpness=2, seed=19)
QUERIES, HIDDEN = 2, 2
"""how many of these tokens are queries, and how many of the others, the context, are hidden"""
MASKED = Claim(
    "a_mask_of_the_context_hides_its_tokens",
    "Tokens of the context that the mask hides change nothing.",
    PropertyGroup.MASK,
)


def find_context_mask(signature: Signature, contract: Contract) -> FurtherQuestion | None:
    """Return the question whether a mask of a context is followed; None if there is none."""
    name = find_mask_name(signature.call)
    if name is None or not contract.call_form.joins_queries:
        return None
    said = f"judged with its `{name}`, too: a mask of the context"
    return FurtherQuestion(contract, CASE, functools.partial(_judge, name=name), said)


def _judge(bench: Bench, name: str) -> JudgedClaim | None:
    """Return whether some form of mask hides tokens; None if calls take none that is as long."""
    queries, context = bench.x[:, :QUERIES], bench.x[:, QUERIES:]
    keep = torch.arange(context.shape[1]) < context.shape[1] - HIDDEN
    shown = bench.call(bench.contract.call_form, queries, context[:, keep], apart=2)
    form, taken = add_mask(bench, name), False
    for convention in iter_conventions(name, form):
        if convention.keys_only and shown:
            own = replace(form, mask=convention)
            got = bench.call(own, queries, context, keep[None, None, None], apart=2)
            taken |= bool(got)
            if is_close(got, shown[0].double()):
                return JudgedClaim(MASKED)
    if not taken:
        return None
    expected = "with a mask the same as without the tokens that it hides"
    return JudgedClaim(MASKED, expected, "something else, with each kind of mask")
