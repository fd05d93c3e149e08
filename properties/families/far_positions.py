"""Positions after thousands of tokens: in 16 bits they are wrong unless computed more exactly.

A frequency that is rounded to bfloat16 is off by up to 1/512 of itself, and after 4,096 tokens the
fastest pair by several radians (huggingface/transformers#29285, vllm-project/vllm#1004). So the
error of the tokens from there on is compared with the error of plain torch in bfloat16, whose
cosines and sines are computed in float32 and then rounded: with torch's softmax, or with exp(s -
lse), which is two or three times as inexact among so many keys. That many tokens take a second or
more, so no exercise requires this property; the pytest plugin checks it if a contract lists `half`.
"""

from dataclasses import replace

import torch
from torch import Tensor

from headcheck.properties.bounds.oracle import get_scale
from headcheck.properties.bounds.right_algorithms import ByLogSumExp
from headcheck.properties.cases.case_tensors import DTYPES
from headcheck.properties.cases.case_transforms import with_values
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.contracts.variant import get_variant
from headcheck.properties.families.contract import FORM
from headcheck.properties.families.precision import (
    bfloat16_is_as_exact_as_plain_torch,
    measure_errors,
)
from headcheck.properties.harness.case_context import CaseContext
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.violations.violation import Violation, ViolationKind
from headcheck.reference import (
    Parameters,
    Variant,
    append_beside,
    linear,
    masked_softmax,
    merge_heads,
    project,
    project_beside,
    scaled_scores,
    split_shared_heads,
)

family_property = PropertyFamily(PropertyGroup.PRECISION, FORM)
FIRST_FAR = 4096
FAR = ({"batch": 1, "tokens": FIRST_FAR + 64, "d_in": 16, "heads": 1, "head_dim": 16},)
LARGEST_RATIO = 2.0
"""the largest ratio of errors that passes: right answers have at most 1.22, wrong positions at
least 10"""


@family_property(
    C.HALF,
    C.POSITIONS,
    C.CAUSAL,
    C.TOKENS,
    C.PROJECTED,
    C.WIDTHS,
    C.NORMALISED,
    C.UNGATED,
    C.SOFTMAX,
    sizes=FAR,
    on=with_values(dtype="bfloat16", sharpness=2),
    after=(bfloat16_is_as_exact_as_plain_torch,),
    dtypes=("bfloat16",),
    hint="are positions, frequencies or angles kept in the dtype of x?",
)
def bfloat16_places_far_tokens_as_float32_tables_do(context: CaseContext) -> None:
    """Given bfloat16, tokens from 4,096 on are at least half as exact as with tables in float32."""
    got = context.run()[0][:, FIRST_FAR:]
    exact, dtype = _attend_far(context, torch.float64), DTYPES[context.case.dtype]
    plain = [_attend_far(context, dtype)]
    with ByLogSumExp():
        plain.append(_attend_far(context, dtype))
    own, theirs = measure_errors(got, plain, exact)
    if not own <= LARGEST_RATIO * theirs:
        expected = f"an error of at most {LARGEST_RATIO:g} · {theirs:.3g} (root mean square)"
        where = f"output from token {FIRST_FAR} on"
        raise Violation(ViolationKind.VALUE, expected, f"{own:.3g}", where)


@torch.no_grad()
def _attend_far(context: CaseContext, dtype: torch.dtype) -> Tensor:
    """Return the outputs of the far tokens, computed plainly in a dtype."""
    contract, case = context.contract, context.case
    x, p = context.x.to(dtype), context.parameters.map(lambda t: t.to(dtype))
    variant = get_variant(contract, case)
    query, key, value = split_shared_heads(project(x, p, x, x), case.heads)
    query, key = _normalise(variant, p, query, key)
    query, key = append_beside(query, key, project_beside(x, p, x))
    query, key = (_place(variant, t) for t in (query, key))
    scores = scaled_scores(query[..., FIRST_FAR:, :], key, get_scale(contract, case))
    visible = context.may_attend(case.tokens, None)
    assert visible is not None, "later tokens are hidden"
    scores = _adjust(variant, scores)
    context_vectors = merge_heads(masked_softmax(scores, visible[FIRST_FAR:]) @ value)
    return context_vectors if p.W_o is None else linear(context_vectors, p.W_o, p.b_o)


def _normalise(
    variant: Variant, p: Parameters, query: Tensor, key: Tensor
) -> tuple[Tensor, Tensor]:
    return (
        variant.normalise(query, *p.get_norm("q")),
        variant.normalise(key, *p.get_norm("k")),
    )


def _adjust(variant: Variant, scores: Tensor) -> Tensor:
    """Add the bias of distances to scores, computed in at least float32, and limit the scores."""
    if variant.alibi:
        wide = torch.promote_types(scores.dtype, torch.float32)
        scores = scores + variant.find_bias(scores.to(wide)).to(scores.dtype)
    return replace(variant, alibi=False).adjust(scores)


def _place(variant: Variant, t: Tensor) -> Tensor:
    """Rotate queries or keys by tables of at least float32, rounded to their own dtype."""
    if not variant.rotary:
        return t
    tables = variant.make_tables(t.to(torch.promote_types(t.dtype, torch.float32)))
    cos, sin = (table.to(t.dtype) for table in tables)
    return t * cos + variant.swap_pairs(t) * sin
