"""The parameters of a trial with a few of them replaced: what most metamorphic claims work with."""

import torch
from torch import Tensor

from properties.trial import Trial
from reference import Parameters


def with_parameters(trial: Trial, **changes: Tensor) -> Parameters:
    """The case's parameters, some of them replaced; those that do not exist stay away."""
    present = dict(trial.parameters.items())
    return Parameters(**{**present, **{n: t for n, t in changes.items() if n in present}})


def zeroed(trial: Trial, *names: str) -> dict[str, Tensor]:
    """Zeros in place of these parameters, where they exist."""
    present = dict(trial.parameters.items())
    return {n: torch.zeros_like(present[n]) for n in names if n in present}
