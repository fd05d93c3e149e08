"""Grade on Gradescope: `run_autograder` is `python -m headcheck.grader.course.autograder FOLDER`.

Grades FOLDER/submission with the settings in FOLDER/source/plan.json. FOLDER/results/results.json
is replaced after every graded file, so that it is up to date if time runs out.

Exit code: 0 if all passed, 1 if not, 2 if nothing could be graded (results.json says why).
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import msgspec

from headcheck.exercises.exercise import BadContract
from headcheck.grader import UserError, files, run
from headcheck.grader.course.autograder import EXERCISES, PLAN_FILE, AutograderPlan, decode_plan
from headcheck.grader.course.export import gradescope
from headcheck.grader.course.results import ExerciseResult, apply_feedback, compute_results
from headcheck.grader.course.store.records import GradedFile
from headcheck.grader.files import WriteError
from headcheck.grader.grading.worker_pool import grade_all
from headcheck.grader.reading import submission
from headcheck.grader.reading.submission import Submission, SubmissionNotFound
from headcheck.grader.report.records import SubmissionRecord
from headcheck.grader.report.render.sanitise import sanitise

NOTHING_MESSAGE = (
    "There is nothing to grade in what you handed in: no notebook (.ipynb), no module (.py)."
)
FAULT_MESSAGE = (
    "This could not be graded. It is not your fault, and not a verdict on your work. "
    "Please tell your instructor."
)


def main(root: Path) -> int:
    """Grade the submission and write the results; return the exit code."""
    try:
        plan = decode_plan((root / "source" / PLAN_FILE).read_bytes())
        plan = _unpack_exercise(plan, root / "source" / EXERCISES)
        results: list[ExerciseResult] = []
        for results, left in _grade_files(plan, root / "submission"):
            visible = [apply_feedback(each, plan.manifest.feedback) for each in results]
            _write(root, _make_results(visible, left))
        return 0 if all(each.status == "passed" for each in results) else 1
    except SubmissionNotFound:
        _write(root, {"score": 0, "output": NOTHING_MESSAGE})
        return 1
    except (UserError, BadContract, OSError, msgspec.MsgspecError) as error:
        return _report_failure(root, str(error))
    except Exception as error:  # whatever happens, there must be results
        text = f"an internal error of headcheck: {type(error).__name__}: {error}"
        return _report_failure(root, text)


def _unpack_exercise(plan: AutograderPlan, folder: Path) -> AutograderPlan:
    """Return the plan with the path at which the instructor's own exercise is on this machine."""
    named = plan.manifest.exercise
    if not plan.manifest.contract or named is None:
        return plan
    return replace(plan, manifest=replace(plan.manifest, folder=str(folder / named)))


def _grade_files(plan: AutograderPlan, folder: Path) -> Iterator[tuple[list[ExerciseResult], int]]:
    """Yield the results after each file, and the number of files left.

    Raises SubmissionNotFound, SandboxError.
    """
    settings = replace(plan.manifest.settings, jobs=1)
    paths = [each.path for each in submission.find_submissions([str(folder)])]
    names = [submission.escape_path(path.relative_to(folder)) for path in paths]
    submissions = [
        Submission(path, name, submitted_by="you", folder=folder)
        for path, name in zip(paths, names, strict=True)
    ]
    graded: list[GradedFile] = []
    with run.create_sandbox(trusted=plan.trusted, device=settings.device) as sandbox:
        click.echo(f"headcheck: {sandbox.isolation_level.summary}")
        for handed_in, records in grade_all(sandbox, submissions, settings):
            graded.append(_make_graded_file(handed_in, records))
            yield (
                compute_results(graded, policy=plan.manifest.policy),
                len(submissions) - len(graded),
            )


def _make_graded_file(handed_in: Submission, records: Sequence[SubmissionRecord]) -> GradedFile:
    """Return a file as a store would: as in a store, the best of several results counts."""
    return GradedFile(
        student=handed_in.student,
        file=handed_in.display_path,
        kind=handed_in.kind,
        records=tuple(records),
    )


def _make_results(results: list[ExerciseResult], left: int) -> dict[str, Any]:
    """Return the results in Gradescope's format, with a message if files are left."""
    made = gradescope.make_results(results)
    if left:
        were = "was" if left == 1 else "were"
        text = f"Time ran out before {left} of your files {were} judged: hand in fewer."
        made["output"] = f"{text}\n{made['output']}"
    return made


def _report_failure(root: Path, why: str) -> int:
    """Tell the student that they are not at fault; write the reason into the instructors' log."""
    click.echo(f"headcheck: {sanitise(why)}")
    try:
        _write(root, {"score": 0, "output": FAULT_MESSAGE})
    except (OSError, WriteError) as error:  # the script has already written the same
        click.echo(f"headcheck: {error}")
    return 2


def _write(root: Path, results: dict[str, Any]) -> None:
    """Write the results, completely or not at all."""
    folder = root / "results"
    folder.mkdir(parents=True, exist_ok=True)
    complete = {"visibility": "visible", "stdout_visibility": "hidden", **results}
    data = msgspec.json.format(msgspec.json.encode(complete), indent=2)
    files.write(folder / "results.json", data)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
