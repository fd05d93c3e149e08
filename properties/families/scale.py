"""The scores are q·k / √head_dim, nothing else of q and k matters, and large ones are survived."""

from dataclasses import replace

import torch
from torch import Tensor

from properties.case import MaskForm
from properties.cases.case_transforms import both, with_values
from properties.contract import Trait
from properties.families.contract import FORM
from properties.families.parameter_transforms import turned_in_each_head, with_parameters, zeroed
from properties.families.values import it_equals_the_equation
from properties.harness import tomography
from properties.harness.harness import Trial
from properties.oracle import scale_of
from properties.property import Claims, Group
from properties.violation import Kind, Violation

claims = Claims(Group.SCALE, FORM)
T = Trait
NEEDS = (T.ATTENTION, T.PROJECTED, T.TOKENS)


@claims(
    *tomography.NEEDS,
    on=both(tomography.possible, with_values(sharpness=1)),
    limit=3,
    hint="divide by the square root of the width of one head, keys.shape[-1] ** 0.5",
)
def the_scores_are_divided_by_the_root_of_the_head_size(trial: Trial) -> None:
    """The scores are multiplied by 1/√head_dim, no other number."""
    seen = trial.once(tomography.recover)
    visible = seen.expected > 1e-6
    usable = visible & (seen.weights > 1e-12)
    got, wanted = seen.weights.clamp_min(1e-300).log(), seen.expected.clamp_min(1e-300).log()
    # Log-weights relative to their row's mean are the scores relative to theirs.
    got, wanted = _centred(got, usable), _centred(wanted, usable)
    size = float((wanted * wanted).sum())
    if size < 1e-3:
        return
    factor = float((got * wanted).sum()) / size
    if abs(factor - 1) > 1e-4:
        scale = scale_of(trial.contract, trial.case)
        usual = f"1/√{trial.case.head_dim} = " if trial.contract.scale is None else ""
        expected = f"scores scaled by {usual}{scale:.4g}"
        raise Violation(Kind.VALUE, expected, f"scaled by {scale * factor:.4g}", "weights")


def _centred(logs: Tensor, usable: Tensor) -> Tensor:
    count = usable.sum(-1, keepdim=True).clamp_min(1)
    kept = torch.where(usable, logs, 0.0)
    return torch.where(usable, kept - kept.sum(-1, keepdim=True) / count, 0.0)


@claims(*NEEDS, limit=3, hint="the scores are plain dot products of queries and keys")
def larger_queries_and_smaller_keys_cancel(trial: Trial) -> None:
    """Queries four times as large and keys a quarter as large give the same output."""
    scaled = {
        name: tensor * (4.0 if name[-1] == "q" else 0.25)
        for name, tensor in trial.parameters.items()
        if name in ("W_q", "b_q", "W_k", "b_k")
    }
    output = trial.run(parameters=with_parameters(trial, **scaled))[0]
    trial.must_stay(output, trial.output, trial.allowed)


@claims(*NEEDS, limit=3, hint="the scores are plain dot products of queries and keys")
def rotating_queries_and_keys_together_changes_nothing(trial: Trial) -> None:
    """Only the angles between queries and keys count: rotating both changes nothing."""
    turned = {
        name: turned_in_each_head(tensor, trial.case.heads)
        for name, tensor in trial.parameters.items()
        if name in ("W_q", "b_q", "W_k", "b_k")
    }
    trial.must_be_as_before(trial.run(parameters=with_parameters(trial, **turned)))


@claims(
    *NEEDS,
    T.STABLE,
    after=(it_equals_the_equation,),
    limit=3,
    on=lambda case: replace(case, dtype="float64"),
    dtypes=("float64",),
    hint="softmax by hand needs the row's maximum subtracted; blocked scores need -inf",
)
def scores_in_the_millions_are_survived(trial: Trial) -> None:
    """Scores of a few million overflow nothing and still give the right answer."""
    largest = float(trial.expected.exact.scores.abs().max()) or 1.0
    factor = 3e6 / largest
    sharp = {
        name: tensor * factor for name, tensor in trial.parameters.items() if name in ("W_q", "b_q")
    }
    parameters = with_parameters(trial, **sharp)
    trial.must_match(trial.run(parameters=parameters), trial.expect(parameters=parameters))


@claims(
    *NEEDS,
    T.STABLE,
    after=(it_equals_the_equation,),
    limit=3,
    on=lambda case: replace(case, dtype="float64", mask_form=MaskForm.NONE),
    dtypes=("float64",),
    hint="all scores equal and very negative: subtract the row's own maximum, not a constant",
)
def a_constant_added_to_the_scores_cancels(trial: Trial) -> None:
    """Only differences between scores count, however far all of them are from zero."""
    x = trial.x.clone()
    x[..., 0] = 1
    far = dict(zeroed(trial, "W_q"))
    far["W_q"][:, 0] = -1e4
    keys = trial.parameters.W_k.clone()
    keys[:, 0] = 100.0
    parameters = with_parameters(trial, W_q=far["W_q"], W_k=keys)
    trial.must_match(trial.run(x, parameters), trial.expect(x, parameters))


ALL = (
    the_scores_are_divided_by_the_root_of_the_head_size,
    larger_queries_and_smaller_keys_cancel,
    rotating_queries_and_keys_together_changes_nothing,
    scores_in_the_millions_are_survived,
    a_constant_added_to_the_scores_cancels,
)
