"""Write scores and comments into a copy of nbgrader's gradebook.db, with nbgrader's own code.

An exercise becomes a notebook of the assignment, with one graded cell and one comment cell. Scores
and comments are written as nbgrader's autograder would write them: scores and comments that a
person entered in nbgrader remain and take precedence.

Source: https://nbgrader.readthedocs.io/en/stable/api/gradebook.html
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nbgrader import api
from sqlalchemy.exc import SQLAlchemyError

from headcheck.grader.course.export.gradebook import (
    ExportedFiles,
    ExportError,
    Gradebook,
    format_feedback,
    list_left_out,
)
from headcheck.grader.course.results import ExerciseResult

CELL_ID = "headcheck"
UNKNOWN_EXERCISE = "unknown"
"""the notebook for files that answer no exercise"""


def render(book: Gradebook) -> ExportedFiles:
    """Return the database and the students who are missing from it, since students are not added.

    Raises ExportError.
    """
    if not book.database:
        text = "this fills in nbgrader's gradebook.db: give it with --into"
        raise ExportError(f"{text}, and a new file with --out")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "gradebook.db")
        path.write_bytes(book.database)
        try:
            with api.Gradebook(f"sqlite:///{path}", course_id="") as gradebook:
                remarks = _add_assignment(gradebook, book)
                left_out, strangers = _fill_gradebook(gradebook, book)
                gradebook.db.commit()
        except SQLAlchemyError as error:
            first = str(error).partition("\n")[0]
            text = f"the installed nbgrader cannot fill in this gradebook.db: {first}"
            raise ExportError(f"{text}. Is it one? `nbgrader db upgrade` may help") from None
        files = {"gradebook.db": path.read_bytes()}
        return ExportedFiles(files, left_out, (*remarks, *strangers))


def _add_assignment(gradebook: Any, book: Gradebook) -> tuple[str, ...]:
    """Add the assignment if there is none of its name; return a line that reports this."""
    assignment = _name_assignment(book)
    there = sorted(each.name for each in gradebook.assignments)
    if assignment in there:
        return ()
    courses = [course.id for course in gradebook.db.query(api.Course)]
    gradebook.add_assignment(assignment, course_id=courses[0] if courses else None)
    known = f"; it has {', '.join(there)}" if there else ""
    text = (
        f"an assignment {assignment} was added, since the gradebook had none with this name{known}"
    )
    return (f"{text}. --column names another",)


def _name_assignment(book: Gradebook) -> str:
    return book.column or book.run


def _fill_gradebook(gradebook: Any, book: Gradebook) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Write all results into an open gradebook; return who is missing from it, and remarks."""
    assignment = _name_assignment(book)
    for exercise in book.exercises:
        _add_notebook(gradebook, book, assignment, exercise)
    listed = {student.id for student in gradebook.students}
    written: dict[str, str] = {}
    for student, results in book.students.items():
        known = next((i for i in (results[0].handle, student) if i in listed), None)
        if known is not None:
            written[known] = student
            answered = {each.exercise: each for each in results}
            by_exercise = {exercise: answered.get(exercise) for exercise in book.exercises}
            _write_grades(gradebook, assignment, known, by_exercise)
    return list_left_out(book, [written.get(each) for each in listed])


def _add_notebook(gradebook: Any, book: Gradebook, assignment: str, exercise: str) -> None:
    """Add an exercise as a notebook with its maximum points."""
    most = book.maxima[exercise]
    at = (CELL_ID, _name_notebook(exercise), assignment)
    gradebook.update_or_create_notebook(_name_notebook(exercise), assignment)
    gradebook.update_or_create_grade_cell(*at, max_score=most, cell_type="code")
    gradebook.update_or_create_solution_cell(*at)


def _write_grades(
    gradebook: Any, assignment: str, student: str, results: Mapping[str, ExerciseResult | None]
) -> None:
    """Write a student's scores and comments; an unanswered exercise gets score 0, no comment."""
    times = [each.submitted for each in results.values() if each and each.submitted]
    options = {"timestamp": times[0]} if times else {}
    submission = gradebook.update_or_create_submission(assignment, student, **options)
    for exercise, result in results.items():
        _add_missing_cells(gradebook, submission, assignment, _name_notebook(exercise))
        at = (CELL_ID, _name_notebook(exercise), assignment, student)
        grade, comment = gradebook.find_grade(*at), gradebook.find_comment(*at)
        grade.auto_score = 0.0 if result is None else result.score
        grade.needs_manual_grade = False
        comment.auto_comment = None if result is None else format_feedback([result]) or None


def _add_missing_cells(gradebook: Any, submission: Any, assignment: str, notebook: str) -> None:
    """Add the cells that a submission lacks because it is older than the notebook."""
    if any(each.name == notebook for each in submission.notebooks):
        return
    template = gradebook.find_notebook(notebook, assignment)
    added = api.SubmittedNotebook(notebook=template, assignment=submission)
    for cell in template.grade_cells:
        api.Grade(cell_id=cell.id, notebook=added)
    for cell in template.solution_cells:
        api.Comment(cell_id=cell.id, notebook=added)
    gradebook.db.add(added)
    gradebook.db.commit()


def _name_notebook(exercise: str) -> str:
    return exercise or UNKNOWN_EXERCISE
