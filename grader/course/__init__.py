"""Grade a whole course: read submissions, keep their verdicts, and write them for gradebooks.

`intake` attributes each file to a student, `store` keeps verdicts, `grading` joins the two with the
grader of `grader.run`, `results` and `result_lookup` determine which results count, `export` and
`dashboard` write them for others. `autograder` grades on Gradescope. Importing this package imports
none of these modules, so that `headcheck --help` needs neither torch nor a database.
"""

from headcheck.grader import UserError


class CourseError(UserError):
    """An operation on a course is impossible; the message says which one and why."""
