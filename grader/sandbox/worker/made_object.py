"""An object made from a submission, with what must be known about it at later calls."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from headcheck.grader.sandbox.worker.calling import has_changed
from headcheck.grader.sandbox.worker.configs import Config
from headcheck.grader.sandbox.worker.second_device import get_cpu_tensor

KEPT_RESULTS = 3
"""how many results of an object are kept, to check whether a later call changes them"""


@dataclass(eq=False)
class MadeObject:
    """An object, how to make another one, and what it was given and has returned."""

    target: Any
    make: Callable[..., Any]
    configs: Sequence[tuple[Config, dict[str, Any]]] = ()
    """the configs that it was constructed with, each with a copy of its fields"""
    dtype: torch.dtype | None = None
    """the dtype to which it was converted after its construction"""
    results: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    """its last results, each with a copy"""

    def has_changed_config(self) -> bool:
        """Whether a config has other fields than at the construction."""
        return any(vars(config) != before for config, before in self.configs)

    def keep_result(self, outputs: Sequence[Tensor]) -> bool:
        """Keep the first output of a call, and return whether an earlier result has changed."""
        changed = any(has_changed(*each) for each in self.results)
        if outputs:
            first = get_cpu_tensor(outputs[0])
            # The first one of all, too: later ones may be equal to what writes over them.
            others = self.results[1:][2 - KEPT_RESULTS :]
            self.results = [*self.results[:1], *others, (first, first.clone())]
        return changed
