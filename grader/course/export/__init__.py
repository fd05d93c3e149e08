"""Write results for gradebooks and other readers: each format is one pure function."""

from collections.abc import Callable
from importlib import import_module

from headcheck.grader.course.export.gradebook import ExportedFiles, ExportError, Gradebook
from headcheck.grader.course.formats import FORMATS

__all__ = ["FORMATS", "ExportError", "ExportedFiles", "Gradebook", "export"]


def export(book: Gradebook, form: str) -> ExportedFiles:
    """Return the files of a format. Raises ExportError, and ImportError if a package is missing."""
    module, _, name = FORMATS[form].renderer.partition(":")
    render: Callable[[Gradebook], ExportedFiles] = getattr(
        import_module(f"headcheck.grader.course.export.{module}"), name
    )
    return render(book)
