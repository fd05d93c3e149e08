"""Grade a whole course: read submissions, keep their verdicts, and write them for gradebooks.

`intake` attributes each file to a student, `store` keeps verdicts, `grading` joins the two with the
grader of `grader.run`, `results` and `result_lookup` say what counts, `export` and `dashboard`
write it for others. `autograder` grades on Gradescope. Importing this package imports none of them:
`headcheck --help` needs neither torch nor a database.
"""


class CourseError(Exception):
    """An operation on a course that is impossible; the message says which and why."""
