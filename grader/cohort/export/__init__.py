"""Results for whoever reads them: a pure function from a gradebook to files, for each format."""

from collections.abc import Callable
from importlib import import_module

from grader.cohort.export.book import Exported, Gradebook, NotExported
from grader.cohort.formats import FORMATS

__all__ = ["FORMATS", "Exported", "Gradebook", "NotExported", "export"]


def export(book: Gradebook, form: str) -> Exported:
    """The files of a format. Raises NotExported, and ImportError where a package is missing."""
    module, _, name = FORMATS[form].made_by.partition(":")
    render: Callable[[Gradebook], Exported] = getattr(
        import_module(f"grader.cohort.export.{module}"), name
    )
    return render(book)
