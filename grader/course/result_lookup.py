"""Read from a store a run's results (all, those that students may see, or one) and its code."""

from headcheck.grader.course.grouping import assign_groups
from headcheck.grader.course.results import ExerciseResult, apply_feedback, compute_results
from headcheck.grader.course.store import bundle
from headcheck.grader.course.store.database import StoreError
from headcheck.grader.course.store.records import GradedFile
from headcheck.grader.course.store.store import Store
from headcheck.grader.report.feedback import Feedback


def load_results(store: Store, name: str, out_of: float | None = None) -> list[ExerciseResult]:
    """Return all results under a run's name, with all that people decided.

    With `out_of` this is the maximum of every exercise. Raises StoreError.
    """
    about = store.load_newest_run(name).manifest
    return compute_results(
        store.load_graded_files(name),
        store.load_overrides(name),
        store.load_comments(name),
        marks=store.load_marks(name),
        policy=about.policy,
        step=about.rounding,
        out_of=out_of,
    )


def load_released_results(
    store: Store, name: str, feedback: Feedback | None, out_of: float | None = None
) -> list[ExerciseResult]:
    """Return what students may see of each result, by default at the run's feedback level.

    Raises StoreError.
    """
    level = store.load_newest_run(name).manifest.feedback if feedback is None else feedback
    return [apply_feedback(each, level) for each in load_results(store, name, out_of)]


def load_code(store: Store, name: str) -> tuple[tuple[GradedFile, bundle.Unpacked], ...]:
    """Return the current files of a run with what they hold. Raises StoreError."""
    return tuple(
        (each, bundle.unpack(store.load_content(each.content) or b"", each.kind))
        for each in store.load_graded_files(name)
    )


def load_student_results(store: Store, name: str, student: str) -> list[ExerciseResult]:
    """Return one student's results, of which some may be a group's. Raises StoreError if none."""
    results = [each for each in load_results(store, name) if each.student == student]
    if not results:
        store.load_student_files(name, student)  # raises, and suggests another id
        raise StoreError(f"{name}/{student}: {_explain_no_result(store, name, student)}")
    return results


def _explain_no_result(store: Store, name: str, student: str) -> str:
    """Say why somebody has files and no result: they are a group's, or no verdict is stored."""
    policy = store.load_newest_run(name).manifest.policy
    membership = assign_groups(policy, store.load_graded_files(name))
    group = membership.teams.get(student)
    if group is None:
        return "no verdict is stored for these files; grade them again"
    members = ", ".join(membership.groups[group])
    return f"is the id of the group {group}; name one of its members: {members}"


def find_result(store: Store, name: str, student: str, exercise: str | None) -> ExerciseResult:
    """Return one result of a student. Raises StoreError if there is none or more than one."""
    results = load_student_results(store, name, student)
    if exercise is not None:
        results = [each for each in results if each.exercise == exercise]
        if not results:
            raise StoreError(f"{name}/{student}: no result for {exercise!r}")
    if len(results) > 1:
        slugs = ", ".join(each.exercise for each in results)
        raise StoreError(f"{name}/{student}: say which with --exercise: {slugs}")
    return results[0]
