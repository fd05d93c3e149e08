"""Results for whoever reads them: a pure function from a gradebook to files, for each format."""

from collections.abc import Callable, Mapping
from importlib import import_module

from grader.course.export.gradebook import ExportedFiles, ExportError, Gradebook

FORMATS: Mapping[str, str] = {
    "canvas": "canvas:render",
    "csv": "plain:render",
    "github": "github:render",
    "gradescope": "gradescope:render",
    "junit": "junit:render",
    "moodle-gradebook": "moodle:render_gradebook",
    "moodle-worksheet": "moodle:render_worksheet",
    "nbgrader": "nbgrader:render",
    "nbgrader-db": "nbgrader_db:render",
    "parquet": "parquet:render",
    "prairielearn": "prairielearn:render",
}
"""what there is, and the function that makes it; two need a package of their own"""

__all__ = ["FORMATS", "ExportError", "ExportedFiles", "Gradebook", "export"]


def export(book: Gradebook, form: str) -> ExportedFiles:
    """The files of a format. Raises NotExported, and ImportError where a package is missing."""
    module, _, name = FORMATS[form].partition(":")
    render: Callable[[Gradebook], ExportedFiles] = getattr(
        import_module(f"grader.course.export.{module}"), name
    )
    return render(book)
