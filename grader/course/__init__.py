"""A whole course: what was handed in, where verdicts are kept, and what gradebooks read.

`intake` finds out whose each file is, `store` keeps what was judged, `course` joins them with the
judging of `grader.run`, `export` writes what others read. Importing this package imports none of
them: `headcheck --help` needs neither torch nor a database.
"""


class CourseError(Exception):
    """Something about a course that cannot be done; the message says what and why."""
