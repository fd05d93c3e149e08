"""Write the columns of `nbgrader export`, quoted as CSV requires (nbgrader itself does not quote).

Source: https://nbgrader.readthedocs.io/en/stable/user_guide/managing_the_database.html
"""

from headcheck.grader.course.export.gradebook import (
    ExportedFiles,
    Gradebook,
    encode_csv,
    escape_cell,
    format_number,
)

COLUMNS = (
    "assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email",
    "raw_score", "late_submission_penalty", "score", "max_score",
)  # fmt: skip


def render(book: Gradebook) -> ExportedFiles:
    """Return one CSV file. An override replaces the penalty of late work as well."""
    rows: list[tuple[str, ...]] = [COLUMNS]
    for each in book.results:
        person = book.find_student(each)
        first, _, last = person.display_name.rpartition(" ")
        texts = (book.make_column_title(each.exercise), "", each.submitted or "", each.student)
        names = (person.last or last, person.first or first, person.email)
        off = each.taken_off if each.override is None else 0.0
        raw, score = (
            format_number(points) if each.is_judged else ""
            for points in (each.score + off, each.score)
        )
        numbers = (raw, format_number(off), score, format_number(each.max_score))
        rows.append((*map(escape_cell, (*texts, *names)), *numbers))
    return ExportedFiles({"nbgrader.csv": encode_csv(rows)})
