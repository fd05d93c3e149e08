"""Whether a mask of heads takes away what the heads add that it hides.

The weights of a head that is hidden are zero, so a call with the mask gives what a call gives in
which the values of this head are zero.

Source: Michel et al. 2019, "Are Sixteen Heads Really Better than One?", section 2.3
(arXiv:1905.10650).
"""

import functools
from dataclasses import replace

import torch
from torch import Tensor

from headcheck.grader.grading.claims import Claim, JudgedClaim
from headcheck.grader.grading.questions import FurtherQuestion
from headcheck.properties.binding.bench import Bench, is_close
from headcheck.properties.binding.calls import HEAD_MASK
from headcheck.properties.binding.signature import Signature
from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.terms.call_form import MaskConvention
from headcheck.properties.terms.case import Case
from headcheck.properties.terms.group import PropertyGroup
from headcheck.reference import Parameters

C = Capability
CASE = Case(batch=3, tokens=5, context_length=5, d_in=12, heads=2, head_dim=6, sharpness=2, seed=23)
"""two heads, the second of which is hidden"""
SHAPES = ((1, 2, 1, 1), (2,), (3, 2, 1, 1))
"""the shapes that a mask of these heads may have"""
_SHOWN = torch.tensor([1.0, 0.0], dtype=torch.float64)
TAKEN_AWAY = Claim(
    "a_mask_of_heads_takes_away_what_they_add",
    "A head that the mask hides adds nothing to the output.",
    PropertyGroup.MASK,
)


def find_head_mask(signature: Signature, contract: Contract) -> FurtherQuestion | None:
    """Return the question whether a mask of heads is followed; None if there is none."""
    names = (p.name for p in signature.call if p.has_default and HEAD_MASK.fullmatch(p.name))
    name = next(names, None)
    plain = contract.has(C.HEADS, C.OWN_KEYS, C.PROJECTED, C.UNCOMPRESSED, C.MODULE)
    if name is None or not plain or contract.call_form.mask.required:
        return None
    said = f"judged with its `{name}`, too: ones and zeros that show and hide heads"
    return FurtherQuestion(contract, CASE, functools.partial(_judge, name=name), said)


def _judge(bench: Bench, name: str) -> JudgedClaim | None:
    """Return whether a mask of some shape hides a head; None if calls take none."""
    form = bench.contract.call_form
    inputs = tuple(role for role in form.inputs if role != "mask")
    own = replace(form, inputs=(*inputs, "mask"), mask=MaskConvention(argument=name))
    without = bench.call(form, bench.x, parameters=_silence(bench))
    whole = bench.call(form, bench.x)
    if not without or not whole:
        return None
    masks = (_SHOWN.reshape([2, *shape[2:]]).expand(shape) for shape in SHAPES)
    given = [bench.call(own, bench.x, mask, manner="added") for mask in masks]
    taken = [results for results in given if results]
    if any(is_close(results, without[0].double()) for results in taken):
        return JudgedClaim(TAKEN_AWAY)
    idle = any(is_close(results, whole[0].double()) for results in taken)
    got = "the mask changes nothing" if idle else "something else"
    return JudgedClaim(TAKEN_AWAY, "the output without this head's values", got) if taken else None


def _silence(bench: Bench) -> Parameters:
    """Return parameters with which the second head has values of zero."""
    width = bench.case.head_dim
    values: dict[str, Tensor] = {}
    for key in ("W_v", "b_v"):
        tensor = getattr(bench.parameters, key)
        if tensor is not None:
            values[key] = tensor.clone()
            values[key][width : 2 * width] = 0
    return replace(bench.parameters, **values)
