"""A notebook's namespace, and checks of what was defined there."""

import textwrap
from typing import Any

from headcheck.exercises import BY_SLUG
from headcheck.grader.ui.jupyter import CheckResult
from headcheck.grader.ui.jupyter.checking import check_in_namespace, make_request


def run_cell(source: str, name: str = "__main__") -> dict[str, Any]:
    """The namespace of a notebook in which this has been run."""
    namespace: dict[str, Any] = {"__name__": name}
    exec(compile(textwrap.dedent(source), "<a cell of nobody's>", "exec"), namespace)
    return namespace


def run_solution(slug: str) -> dict[str, Any]:
    return run_cell(BY_SLUG[slug].solution)


def check_answer(slug: str, source: str | None = None, **options: Any) -> CheckResult:
    exercise = BY_SLUG[slug]
    namespace = run_solution(slug) if source is None else run_cell(source)
    return check_in_namespace(
        namespace[exercise.contract.name], make_request(slug, **options), namespace
    )
