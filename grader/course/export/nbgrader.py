"""The columns of `nbgrader export`, quoted as CSV demands (nbgrader itself does not quote).

Source: https://nbgrader.readthedocs.io/en/stable/user_guide/managing_the_database.html
"""

from grader.course.export.gradebook import Exported, Gradebook, cell, csv_of, number

COLUMNS = (
    "assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email",
    "raw_score", "late_submission_penalty", "score", "max_score",
)  # fmt: skip


def render(book: Gradebook) -> Exported:
    """One CSV file. Nothing is taken off for being late: that is for people to decide."""
    rows: list[tuple[str, ...]] = [COLUMNS]
    for each in book.standings:
        person = book.person(each)
        first, _, last = person.shown.rpartition(" ")
        texts = (book.title(each.exercise), "", each.submitted or "", each.student)
        names = (person.last or last, person.first or first, person.email)
        score = number(each.score)
        rows.append(
            (*map(cell, texts), *map(cell, names), score, "0", score, number(each.max_score))
        )
    return Exported({"nbgrader.csv": csv_of(rows)})
