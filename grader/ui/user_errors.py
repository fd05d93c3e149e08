"""Which exceptions are messages for the user of a command."""

from headcheck.grader import files


def is_user_error(error: Exception) -> bool:
    """Return whether an exception is a message for the user, rather than an internal error."""
    from headcheck.exercises.exercise import BadContract

    if isinstance(error, BadContract):  # of one of ours: what is imported next would raise it again
        return True
    from headcheck.grader.course import CourseError
    from headcheck.grader.grading.infer import TargetNotFound

    if isinstance(error, (TargetNotFound, CourseError, files.WriteError)):
        return True  # before what is imported next, which takes seconds
    from headcheck.exercises.answers import AnswerNotFound, BadBank
    from headcheck.grader.authoring.decisions import BadDecision, CannotAuthor
    from headcheck.grader.grading.search_limit import BadSearch
    from headcheck.grader.grading.stated_roles import BadBinding
    from headcheck.grader.reading.submission import SubmissionNotFound
    from headcheck.grader.report.course_file import BadCourseFile
    from headcheck.grader.report.feedback import BadFeedback
    from headcheck.grader.run import DeviceUnavailable
    from headcheck.grader.sandbox.grader_side.servers import SandboxError
    from headcheck.grader.ui.pytest_plugin.replay import ReplayError

    kinds = (
        BadBinding,
        BadDecision,
        CannotAuthor,
        AnswerNotFound,
        BadBank,
        DeviceUnavailable,
        BadCourseFile,
        BadFeedback,
        BadSearch,
        SandboxError,
        ReplayError,
        SubmissionNotFound,
    )
    return isinstance(error, kinds)
