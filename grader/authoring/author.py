"""Write the folder of an exercise from a solution, and certify it by an audit."""

import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headcheck.exercises import BY_SLUG, Exercise
from headcheck.exercises.contract_file import SLUG, load_exercise
from headcheck.exercises.contract_writer import write_contract
from headcheck.grader.audit.matrix import Audit, load_answers, run_audit
from headcheck.grader.authoring import answers, drafts, recognising, rewrites
from headcheck.grader.authoring.decisions import CannotAuthor, Question, decide, list_questions
from headcheck.grader.authoring.extraction import extract_solution
from headcheck.grader.authoring.judging import Judged
from headcheck.grader.authoring.recognising import Recognised
from headcheck.grader.authoring.workers import judge_all
from headcheck.grader.batch.plan import get_batch_plan
from headcheck.grader.files import make_write_error
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.cells import read_source
from headcheck.grader.reading.submission import Submission
from headcheck.grader.sandbox.grader_side.session import ChildFactory
from headcheck.properties.cases.case_set import PUBLIC_SEED

Ask = Callable[[Recognised, Sequence[Question]], Mapping[str, bool]]
"""returns answers by the names of the questions; a question without one gets the suggested answer
"""
JUDGING_SECONDS = 180.0
"""how long changes of the solution are judged; all other steps together take at most as long"""
CASES = 12
"""the largest number of cases for one property; a statement may ask for more"""


@dataclass(frozen=True)
class Authored:
    """A written exercise, and the results of its certification."""

    folder: Path
    recognised: Recognised
    decided: tuple[str, ...]
    waived: tuple[str, ...]
    """properties that are not checked, because the solution breaks them"""
    judged: tuple[Judged, ...]
    """the changes of the solution"""
    variants: int
    """how many rewrites of the solution compute the same results"""
    audit: Audit
    """the audit of the right answers; wrong answers need none, because each was kept for a property
    that catches it"""
    left: int = 0
    """how many changes were not judged for lack of time"""

    @property
    def caught(self) -> list[Judged]:
        """The wrong answers that some property catches."""
        return [each for each in self.judged if each.caught_by is not None]

    @property
    def missed(self) -> list[Judged]:
        """The changes that compute different results but break no property."""
        return [each for each in self.judged if each.is_missed]

    @property
    def equivalent(self) -> list[Judged]:
        """The changes that compute the same results."""
        return [each for each in self.judged if each.is_equivalent]

    @property
    def is_certified(self) -> bool:
        """Whether wrong answers are caught, and no right answer is called wrong."""
        return bool(self.caught) and not self.audit.false_alarms


def author(
    server: ChildFactory,
    submission: Submission,
    settings: Settings,
    ask: Ask,
    folder: Path | None,
    jobs: int,
) -> Authored:
    """Make an exercise from a solution, in a new folder that is by default named after it.

    Raises CannotAuthor, BadDecision or WrongSolution, and in that case writes nothing.
    """
    with recognising.open_session(server, submission, settings) as session:
        recognised = recognising.recognise(session, submission, settings)
        folder = folder or name_folder(recognised.signature.name)
        check_folder(folder)
        _check_contract(recognised, submission)
        questions = list_questions(recognised.contract)
        said = ask(recognised, questions)
        contract = decide(recognised.contract, said)
        accepted = recognising.accept(session, submission, recognised, contract, settings)
        solution = extract_solution(
            read_source(session.data, session.kind),  # type: ignore[arg-type]
            recognised.signature.name,
        )
    decided = tuple(q.said[said.get(q.name, q.suggested)] for q in questions)
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch) / folder.name
        exercise = _write_texts(made, accepted, recognised, solution, settings)
        judged, variants, left = _write_answers(exercise, jobs)
        right = [answer for answer in load_answers(exercise) if not answer.is_wrong]
        audit = run_audit([exercise], right, jobs)
        _move(made, folder)
    waived = accepted.contract.waived
    return Authored(folder, recognised, decided, waived, tuple(judged), variants, audit, left)


def _check_contract(recognised: Recognised, submission: Submission) -> None:
    """Raise CannotAuthor if no exercise can be made of what a class computes."""
    file, name = submission.display_path, recognised.signature.name
    if not recognised.contract.mappings:
        raise CannotAuthor(
            f"{file}: `{name}` has no weights, and an exercise on a class needs some; name a class "
            "with projections by --class"
        )
    if "group" in (recognised.contract.sizes or {}):
        raise CannotAuthor(
            f"{file}: all heads of `{name}` share one key and one value. An exercise needs an "
            "argument for this: add one, such as `num_kv_heads=1`, that sets the number of key and "
            "value heads"
        )


def _write_texts(
    folder: Path, accepted: Exercise, recognised: Recognised, solution: str, settings: Settings
) -> Exercise:
    """Write the exercise without its answers, and load it."""
    contract = accepted.contract
    title = drafts.describe_title(contract)
    described = replace(accepted, title=title, cases=CASES, by_hand=settings.by_hand)
    texts = {
        "contract.toml": write_contract(described),
        "statement.md": drafts.draft_statement(contract, recognised.signature),
        "hints.md": drafts.draft_hints(contract, recognised.signature),
        "solution.py": solution,
    }
    folder.mkdir()
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return load_exercise(folder)


def _write_answers(exercise: Exercise, jobs: int) -> tuple[list[Judged], int, int]:
    """Write the answer bank; return the judged changes and two counts.

    The counts are the right variants, and the changes left out for lack of time. The plan of the
    batched cases is made here once, and the judging processes read it from disk.
    """
    get_batch_plan(exercise, exercise.contract.mappings, PUBLIC_SEED, "cpu")
    bank = exercise.folder / "answers"
    listed = [*rewrites.list_variants(exercise), *answers.spread(answers.list_changes(exercise))]
    judged = judge_all(exercise, listed, jobs, seconds=JUDGING_SECONDS)
    same = [each.answer for each in judged if not each.answer.is_wrong and each.same]
    changes = [each for each in judged if each.answer.is_wrong]
    answers.write_right(bank, same)
    answers.write_wrong(bank, answers.choose_kept(changes))
    answers.write_equivalents(exercise.folder, exercise, changes)
    return changes, len(same), len(listed) - len(judged)


def _move(made: Path, folder: Path) -> None:
    """Move a finished folder to its place. Raises WriteError."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(made, folder)
    except OSError as error:
        raise make_write_error(folder, error) from None


def name_folder(class_name: str) -> Path:
    """Return the folder for a class, in the current one: `MultiHead` is written to multi_head."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", class_name)
    slug = re.sub(r"\W", "_", words.lower()).strip("_") or "attention"
    return Path(f"own_{slug}" if slug in BY_SLUG else slug)


def check_folder(folder: Path) -> None:
    """Raise CannotAuthor if an exercise cannot be written to the folder."""
    if not SLUG.fullmatch(folder.name):
        allowed = "name it with letters, digits, _ and -"
        raise CannotAuthor(f"{folder}: {folder.name!r} cannot name an exercise; {allowed}")
    if folder.name in BY_SLUG:
        raise CannotAuthor(
            f"{folder}: headcheck has an exercise {folder.name!r} already; choose another name "
            "with -o"
        )
    if folder.exists() or folder.is_symlink():
        raise CannotAuthor(f"{folder} is already there, and stays; choose another with -o")
