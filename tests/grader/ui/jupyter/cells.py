"""A notebook's namespace, and checks of what was defined there."""

import textwrap
from typing import Any

from exercises import BY_SLUG
from grader.ui.jupyter import Checked
from grader.ui.jupyter.checking import checked


def defined(source: str, name: str = "__main__") -> dict[str, Any]:
    """The namespace of a notebook in which this has been run."""
    namespace: dict[str, Any] = {"__name__": name}
    exec(compile(textwrap.dedent(source), "<a cell of nobody's>", "exec"), namespace)
    return namespace


def solved(slug: str) -> dict[str, Any]:
    return defined(BY_SLUG[slug].solution)


def result(slug: str, source: str | None = None, **options: Any) -> Checked:
    exercise = BY_SLUG[slug]
    namespace = solved(slug) if source is None else defined(source)
    return checked(namespace[exercise.contract.name], slug, namespace, **options)
