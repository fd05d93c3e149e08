"""Write results for gradebooks and other readers: each format is one pure function."""

import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib import import_module

from headcheck.grader.course.export.gradebook import ExportedFiles, ExportError, Gradebook
from headcheck.grader.course.formats import FORMATS
from headcheck.grader.grouped import group_by
from headcheck.grader.report.render.sanitise import sanitise_line

__all__ = ["FORMATS", "ExportError", "ExportedFiles", "Gradebook", "export"]


def export(book: Gradebook, form: str) -> ExportedFiles:
    """Return the files of a format. Raises ExportError, and ImportError if a package is missing."""
    module, _, name = FORMATS[form].renderer.partition(":")
    render: Callable[[Gradebook], ExportedFiles] = getattr(
        import_module(f"headcheck.grader.course.export.{module}"), name
    )
    exported = render(book)
    remarks = *exported.remarks, *_find_alike(exported.files)
    return replace(exported, remarks=remarks)


def _find_alike(names: Iterable[str]) -> list[str]:
    """Say which files would replace one another where case does not matter in names."""
    alike = group_by(names, lambda name: unicodedata.normalize("NFC", name).casefold())
    text = "are one file where names ignore case, as on macOS and Windows"
    return [f"{sanitise_line(' and '.join(same))} {text}" for same in alike.values() if same[1:]]
