"""What grades on Gradescope: `python -m grader.course.autograder FOLDER`, by `run_autograder`.

Judges FOLDER/submission as FOLDER/source/plan.json says. FOLDER/results/results.json is replaced
whenever a file has been judged, so that it holds what is known when time runs out.

Exit code: 0 all passed, 1 not all passed, 2 nothing could be graded, as the file says.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import msgspec

from grader import files, run
from grader.course import CourseError
from grader.course.autograder import PLAN_FILE, AutograderPlan, decode_plan
from grader.course.export import gradescope
from grader.course.results import ExerciseResult, apply_feedback, compute_results
from grader.course.store.records import GradedFile
from grader.files import WriteError
from grader.grading.worker_pool import grade_all
from grader.reading import submission
from grader.reading.submission import Submission, SubmissionNotFound
from grader.report.records import SubmissionRecord
from grader.report.render.sanitise import sanitise
from grader.sandbox.grader_side.servers import SandboxError

NOTHING_MESSAGE = (
    "There is nothing to grade in what you handed in: no notebook (.ipynb), no module (.py)."
)
FAULT_MESSAGE = (
    "This could not be graded, for no fault of yours: it is no verdict on your work. "
    "Please tell your instructor."
)


def main(root: Path) -> int:
    """Judge what was submitted and write the results; the exit code."""
    try:
        plan = decode_plan((root / "source" / PLAN_FILE).read_bytes())
        exercise_results: list[ExerciseResult] = []
        for exercise_results, left in _grade_files(plan, root / "submission"):
            shown = [apply_feedback(each, plan.manifest.feedback) for each in exercise_results]
            _write(root, _make_results(shown, left))
        return 0 if all(each.status == "passed" for each in exercise_results) else 1
    except SubmissionNotFound:
        _write(root, {"score": 0, "output": NOTHING_MESSAGE})
        return 1
    except (CourseError, SandboxError, WriteError, OSError, msgspec.MsgspecError) as error:
        return _report_failure(root, str(error))
    except Exception as error:  # whatever it is, there must be results
        return _report_failure(
            root, f"a fault of headcheck itself: {type(error).__name__}: {error}"
        )


def _grade_files(plan: AutograderPlan, folder: Path) -> Iterator[tuple[list[ExerciseResult], int]]:
    """What stands after each file, and how many files are left. Raises NotFound, SandboxError."""
    chosen = replace(plan.manifest.settings, jobs=1)
    found = [
        Submission(
            each.path, submission.escape_path(each.path.relative_to(folder)), submitted_by="you"
        )
        for each in submission.find_submissions([str(folder)])
    ]
    stored: list[GradedFile] = []
    with run.create_sandbox(trusted=plan.trusted, device=chosen.device) as sandbox:
        click.echo(f"headcheck: {sandbox.isolation_level.summary}")
        for handed_in, records in grade_all(sandbox, found, chosen):
            stored.append(_make_graded_file(handed_in, records))
            yield compute_results(stored), len(found) - len(stored)


def _make_graded_file(handed_in: Submission, records: Sequence[SubmissionRecord]) -> GradedFile:
    """A file as if it came out of a store: the best of several counts, as there."""
    return GradedFile(
        run=0,
        student=handed_in.student,
        name="",
        email="",
        handle="",
        file=handed_in.display_path,
        attempt=1,
        late=False,
        submitted=None,
        content="",
        kind=handed_in.kind,
        judged="",
        records=tuple(records),
    )


def _make_results(exercise_results: list[ExerciseResult], left: int) -> dict[str, Any]:
    """In Gradescope's format, with a word on what is left."""
    results = gradescope.make_results(exercise_results)
    if left:
        text = f"Time ran out before {left} of your files were judged: hand in fewer."
        results["output"] = f"{text}\n{results['output']}"
    return results


def _report_failure(root: Path, why: str) -> int:
    """Tell the student that it is not their fault, and the log, which students don't see, why."""
    click.echo(f"headcheck: {sanitise(why)}")
    try:
        _write(root, {"score": 0, "output": FAULT_MESSAGE})
    except (OSError, WriteError) as error:  # what the script wrote before says the same
        click.echo(f"headcheck: {error}")
    return 2


def _write(root: Path, results: dict[str, Any]) -> None:
    """Put the results there, whole or not at all."""
    folder = root / "results"
    folder.mkdir(parents=True, exist_ok=True)
    told = {"visibility": "visible", "stdout_visibility": "hidden", **results}
    data = msgspec.json.format(msgspec.json.encode(told), indent=2)
    files.write(folder / "results.json", data)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
