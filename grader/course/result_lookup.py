"""What a decision is about: one student's result in one exercise of a run. And who is told what."""

from grader.course.results import Standing, standings, told_standing
from grader.course.store.database import NoStore
from grader.course.store.store import Store
from grader.report.feedback import Feedback


def results(store: Store, name: str) -> list[Standing]:
    """Everybody's results under a run's name, with what people decided. Raises NoStore."""
    store.newest(name)
    return standings(store.standing(name), store.overrides(name), store.comments(name))


def told_results(store: Store, name: str, feedback: Feedback | None) -> list[Standing]:
    """What may be told of everybody's results; as the run was graded, if nobody says otherwise.

    Raises NoStore.
    """
    telling = store.newest(name).manifest.feedback if feedback is None else feedback
    return [told_standing(each, telling) for each in results(store, name)]


def exercise_of(store: Store, name: str, student: str, exercise: str | None) -> Standing:
    """The result that is meant. Raises NoStore where it is none, or one of several."""
    store.of(name, student)
    theirs = [each for each in results(store, name) if each.student == student]
    if exercise is not None:
        theirs = [each for each in theirs if each.exercise == exercise]
        if not theirs:
            raise NoStore(f"{name}/{student}: nothing was judged as {exercise!r}")
    if len(theirs) > 1:
        slugs = ", ".join(each.exercise for each in theirs)
        raise NoStore(f"{name}/{student}: say which with --exercise: {slugs}")
    return theirs[0]
