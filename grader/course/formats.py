"""The list of export formats, and the page docs/exports.md made from the formats.

    python -m headcheck.grader.course.formats > docs/exports.md

A test compares this output with the page. This module imports nothing heavy, because the command
line offers the names of the formats and layouts.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExportFormat:
    """How results are written for one consumer."""

    renderer: str
    """`module:function` in `grader.course.export`"""
    description: str
    """a description for the instructor who has to choose"""
    fills: str = ""
    """what the instructor provides for filling in: a "sheet" or a "database\""""
    absent: bool = False
    """whether it has a row for students who handed in nothing, too"""
    contents: str = "results"
    """what the files hold: "results", the students' "code", their notebooks with "feedback", or
    "marks" to be given"""
    extra: str = ""
    """the extra of headcheck with the packages that the format needs"""

    @property
    def needs_files(self) -> bool:
        """Whether the format is made from the files that were handed in."""
        return self.contents in ("code", "feedback")


FORMATS: Mapping[str, ExportFormat] = {
    "canvas": ExportFormat(
        "canvas:render",
        "Canvas's gradebook CSV. `--into` its own export: the columns that identify students and "
        "sections as they are, and a column for each exercise of the run. Other assignments are "
        "left out, so that no other grade is touched. Grades only.",
        absent=True,
    ),
    "code": ExportFormat(
        "source_code:render",
        "A `.py` for every file that was handed in, and `info.csv` about them, for "
        "[tools that find copies](cohort.md#similar-submissions). No results.",
        contents="code",
    ),
    "csv": ExportFormat(
        "plain:render", "A row for every student and exercise, with feedback.", absent=True
    ),
    "github": ExportFormat(
        "github:render",
        "For every student the output `result` of an autograding step, and annotations.",
    ),
    "gradescope": ExportFormat("gradescope:render", "`results.json` for every student."),
    "junit": ExportFormat(
        "junit:render",
        "JUnit XML: a suite for every student and exercise, a case for every check.",
        absent=True,
    ),
    "marks": ExportFormat(
        "mark_sheet:render",
        "CSV for [marks by hand](cohort.md#hand-marked-parts), to fill in for "
        "`headcheck mark RUN --from`: a row for every student and exercise, and for every "
        "criterion a column for points and one for comments. No other points.",
        contents="marks",
    ),
    "moodle-gradebook": ExportFormat(
        "moodle:render_gradebook",
        "CSV for the gradebook's import: ID number, address, grade, feedback.",
        absent=True,
    ),
    "moodle-worksheet": ExportFormat(
        "moodle:render_worksheet",
        "The offline grading worksheet, `--into` the one you downloaded, in any language. All its "
        "columns stay. They are found by what is in them; if that fails, `--column` names the one "
        "for grades.",
        fills="sheet",
        absent=True,
    ),
    "nbgrader": ExportFormat("nbgrader:render", "The columns of `nbgrader export`.", absent=True),
    "nbgrader-db": ExportFormat(
        "nbgrader_db:render",
        "nbgrader's `gradebook.db`, `--into` yours, written by nbgrader's own code.",
        fills="database",
        extra="nbgrader",
    ),
    "notebooks": ExportFormat(
        "notebooks:render",
        "Each student's own notebook, with [what was found](cohort.md#feedback-in-notebooks) below "
        "the cell that it is about; a page for other files.",
        contents="feedback",
    ),
    "parquet": ExportFormat(
        "plain:render_parquet", "The rows of `csv`, typed.", absent=True, extra="parquet"
    ),
    "prairielearn": ExportFormat(
        "prairielearn:render", "`results.json` for every student, at most 1 MB."
    ),
}

HEAD = """\
# Export formats

Made by `python -m headcheck.grader.course.formats > docs/exports.md`; do not edit.

What `headcheck export RUN --store STORE --format FORMAT` writes; [a whole course](cohort.md) says
what is the same in all of them.

| `--format` | what it is | needs the extra |
|---|---|---|
"""


def render_page() -> str:
    """Return the page docs/exports.md."""
    rows = [
        f"| `{name}` | {each.description} | {f'`{each.extra}`' if each.extra else '–'} |\n"
        for name, each in FORMATS.items()
    ]
    return HEAD + "".join(rows)


if __name__ == "__main__":
    sys.stdout.write(render_page())
