"""Which exceptions are messages for the user of a command."""

from grader import files
from grader.course import CourseError


def is_user_error(error: Exception) -> bool:
    """Return whether an exception is a message for the user, rather than an internal error."""
    from exercises.exercise import BadContract

    if isinstance(error, BadContract):  # of one of ours: what is imported next would raise it again
        return True
    from grader.grading.infer import TargetNotFound

    if isinstance(error, (TargetNotFound, CourseError, files.WriteError)):
        return True  # before what is imported next, which takes seconds
    from exercises.answers import AnswerNotFound, BadBank
    from grader.authoring.decisions import BadDecision
    from grader.authoring.recognising import CannotAuthor
    from grader.grading.search_limit import BadSearch
    from grader.grading.stated_roles import BadBinding
    from grader.reading.submission import SubmissionNotFound
    from grader.report.course_file import BadCourseFile
    from grader.report.feedback import BadFeedback
    from grader.run import DeviceUnavailable
    from grader.sandbox.grader_side.servers import SandboxError
    from grader.ui.pytest_plugin.replay import ReplayError

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
