"""What a decision is about: one student's result in one exercise of a run. And who is told what."""

from grader.course.results import ExerciseResult, apply_feedback, compute_results
from grader.course.store.database import StoreError
from grader.course.store.store import Store
from grader.report.feedback import Feedback


def load_results(store: Store, name: str) -> list[ExerciseResult]:
    """Everybody's results under a run's name, with what people decided. Raises NoStore."""
    store.load_newest_run(name)
    return compute_results(
        store.load_graded_files(name), store.load_overrides(name), store.load_comments(name)
    )


def load_released_results(
    store: Store, name: str, feedback: Feedback | None
) -> list[ExerciseResult]:
    """What may be told of everybody's results; as the run was graded, if nobody says otherwise.

    Raises NoStore.
    """
    telling = store.load_newest_run(name).manifest.feedback if feedback is None else feedback
    return [apply_feedback(each, telling) for each in load_results(store, name)]


def find_result(store: Store, name: str, student: str, exercise: str | None) -> ExerciseResult:
    """The result that is meant. Raises NoStore where it is none, or one of several."""
    store.load_student_files(name, student)
    theirs = [each for each in load_results(store, name) if each.student == student]
    if exercise is not None:
        theirs = [each for each in theirs if each.exercise == exercise]
        if not theirs:
            raise StoreError(f"{name}/{student}: nothing was judged as {exercise!r}")
    if len(theirs) > 1:
        slugs = ", ".join(each.exercise for each in theirs)
        raise StoreError(f"{name}/{student}: say which with --exercise: {slugs}")
    return theirs[0]
