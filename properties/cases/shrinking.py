"""Shrink a failing case with Hypothesis, within a budget."""

import contextlib
from collections.abc import Callable

from hypothesis import HealthCheck, Phase, find, settings
from hypothesis.errors import HypothesisException, NoSuchExample

from headcheck.properties.cases.strategies import smaller_cases
from headcheck.properties.terms.case import Case

MAX_EXAMPLES = 60


def shrink(start: Case, fails: Callable[[Case], bool]) -> None:
    """Call `fails`, which stores the results, on smaller cases until Hypothesis finds a minimum.

    Nothing is raised if no case fails or if a failure cannot be reproduced.
    """
    with contextlib.suppress(NoSuchExample, HypothesisException):
        find(smaller_cases(start), fails, settings=SETTINGS)


SETTINGS = settings(
    max_examples=MAX_EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
)
