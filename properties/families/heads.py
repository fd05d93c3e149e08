"""The heads work side by side, each with its own weights, and are merged in their order."""

from dataclasses import replace

import torch
from torch import Tensor

from properties.case import Case, MaskForm
from properties.cases.case_transforms import at_least, both
from properties.contract import Trait
from properties.families.contract import FORM
from properties.families.parameter_transforms import (
    heads_in_order,
    turned_in_each_head,
    with_parameters,
    zeroed,
)
from properties.harness.harness import Trial
from properties.property import Claims, Group
from properties.tolerance import Allowed

claims = Claims(Group.HEADS, FORM)
T = Trait
SEVERAL = at_least(heads=2, tokens=2)
HINT = "split with view(b, t, heads, head_dim).transpose(1, 2), merge with transpose(1, 2) first"


def under_one_mask(case: Case) -> Case:
    """Cases in which no head has a mask of its own, by which it could be told from another."""
    shared = {
        MaskForm.BATCH_HEAD_QUERY_KEY: MaskForm.BATCH_ONE_QUERY_KEY,
        MaskForm.ONE_HEAD_QUERY_KEY: MaskForm.ONE_ONE_QUERY_KEY,
    }
    return replace(case, mask_form=shared.get(case.mask_form, case.mask_form))


@claims(T.HEADS, T.PROJECTED, T.MODULE, on=both(SEVERAL, under_one_mask), limit=3, hint=HINT)
def permuting_the_heads_permutes_their_outputs(trial: Trial) -> None:
    """Heads with each other's weights exchange their places in the output, nothing more."""
    order = torch.arange(trial.case.heads).roll(1)
    moved = {
        name: heads_in_order(tensor, order)
        for name, tensor in trial.parameters.items()
        if name not in ("W_o", "b_o")
    }
    wanted, exact, float32 = trial.output, trial.allowed.exact, trial.allowed.float32
    if trial.parameters.W_o is not None:
        # Each head's columns go with it, so that the sum over the heads stays as it was.
        moved["W_o"] = heads_in_order(trial.parameters.W_o.mT, order).mT
    else:
        wanted, exact, float32 = (_permuted(t, order) for t in (wanted, exact, float32))
    output = trial.run(parameters=with_parameters(trial, **moved))[0]
    trial.must_stay(output, wanted, Allowed(exact, float32))


def _permuted(output: Tensor, order: Tensor) -> Tensor:
    """The heads' parts of an output in another order."""
    return heads_in_order(output.movedim(-1, 0), order).movedim(0, -1)


@claims(T.HEADS, T.OUTPUT_PROJECTION, T.MODULE, on=SEVERAL, limit=3, hint=HINT)
def the_output_is_the_sum_of_what_the_heads_give(trial: Trial) -> None:
    """The output is the sum of what each head alone would give."""
    heads, d = trial.case.heads, trial.case.head_dim
    assert trial.parameters.W_o is not None
    total = torch.zeros_like(trial.output)
    for head in range(heads):
        columns = torch.zeros_like(trial.parameters.W_o)
        columns[:, head * d : (head + 1) * d] = trial.parameters.W_o[:, head * d : (head + 1) * d]
        alone = with_parameters(trial, W_o=columns, **zeroed(trial, "b_o"))
        total = total + trial.run(parameters=alone)[0]
    bias = 0 if trial.parameters.b_o is None else trial.parameters.b_o
    allowed = trial.allowed
    for _ in range(heads):
        allowed = allowed + trial.allowed
    trial.must_stay(total + bias, trial.output, allowed)


@claims(T.HEADS, T.PROJECTED, T.MODULE, on=SEVERAL, limit=3, hint=HINT)
def each_head_fills_only_its_own_part(trial: Trial) -> None:
    """Changing one head's weights changes that head's part of the merged output and no other."""
    heads, d = trial.case.heads, trial.case.head_dim
    identity = {"W_o": torch.eye(trial.case.d_out, dtype=torch.float64), **zeroed(trial, "b_o")}
    base = with_parameters(trial, **identity)
    expected = trial.expect(parameters=base)
    before = trial.run(parameters=base)[0]
    for head in {0, heads - 1}:
        rows = slice(head * d, (head + 1) * d)
        changed = {n: getattr(base, n).clone() for n in ("W_q", "W_k", "W_v")}
        for tensor in changed.values():
            tensor[rows] *= -2
        after = trial.run(parameters=with_parameters(trial, **identity, **changed))[0]
        others = [c for c in range(trial.case.d_out) if not rows.start <= c < rows.stop]
        slack = expected.allowed[0][..., others]
        what = f"output outside head {head}"
        trial.must_stay(after[..., others], before[..., others], slack, what)


@claims(T.HEADS, T.OUTPUT_PROJECTION, T.MODULE, on=SEVERAL, limit=3, hint=HINT)
def a_head_s_values_may_be_written_in_another_basis(trial: Trial) -> None:
    """A change of basis of each head's values, undone in the output layer, changes nothing."""
    heads, p = trial.case.heads, trial.parameters
    assert p.W_o is not None
    moved = {
        "W_v": turned_in_each_head(p.W_v, heads),
        "W_o": turned_in_each_head(p.W_o.mT, heads).mT,
    }
    if p.b_v is not None:
        moved["b_v"] = turned_in_each_head(p.b_v, heads)
    trial.must_be_as_before(trial.run(parameters=with_parameters(trial, **moved)))


ALL = (
    permuting_the_heads_permutes_their_outputs,
    the_output_is_the_sum_of_what_the_heads_give,
    each_head_fills_only_its_own_part,
    a_head_s_values_may_be_written_in_another_basis,
)
