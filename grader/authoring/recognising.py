"""Find the solution's class in a file, and infer its contract; refuse a wrong solution."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from headcheck.exercises import Exercise
from headcheck.grader.authoring.decisions import CannotAuthor
from headcheck.grader.grading import definitions, infer
from headcheck.grader.grading.attempts import ask, judge
from headcheck.grader.grading.definition_grader import FOLLOW_UPS, DefinitionGrader
from headcheck.grader.grading.infer import Target
from headcheck.grader.grading.open_mode import recognition
from headcheck.grader.grading.open_mode.targets import make_open_target
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.cells import read_source
from headcheck.grader.reading.slicing import compute_slice
from headcheck.grader.reading.submission import Submission, UnreadableSubmission, read_submission
from headcheck.grader.report.records import SubmissionRecord
from headcheck.grader.sandbox.grader_side.session import ChildFactory, Session
from headcheck.grader.sandbox.grader_side.subject import ChannelSubject
from headcheck.properties import families
from headcheck.properties.binding.hypotheses import PROBE
from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.harness.module_adapter import construct
from headcheck.properties.signatures.signature import Signature
from headcheck.properties.terms.group import PropertyGroup
from headcheck.properties.violations.violation import NOT_FAILED, Status, SubmissionFailed

FAILED = {status.value for status in Status if status not in NOT_FAILED}
WAIVABLE = (PropertyGroup.PRECISION, PropertyGroup.SCALE, PropertyGroup.DEVICE)
MOST_LISTED = 6
MAX_ROUNDS = 4
"""a solution is judged at most this many times: each time it breaks a property that may be waived,
it is judged again without that property"""


class WrongSolution(Exception):
    """The solution is wrong; the record names the property that it breaks."""

    def __init__(self, record: SubmissionRecord) -> None:
        super().__init__("the solution is wrong")
        self.record = record


@dataclass(frozen=True)
class Recognised:
    """A class, the contract that was found, and the assumptions."""

    signature: Signature
    target: Target

    @property
    def contract(self) -> Contract:
        return self.target.exercise.contract

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(note.message for note in self.target.notes)


def open_session(
    server: ChildFactory, submission: Submission, settings: Settings
) -> contextlib.closing[Session]:
    """Return a session on the solution's file, as a context manager. Raises CannotAuthor."""
    limits = settings.get_limits(None)
    try:
        data = read_submission(submission, limits.source)
    except UnreadableSubmission as problem:
        raise CannotAuthor(f"{submission.display_path} {problem}") from None
    return contextlib.closing(Session(server, data, submission.kind, limits))


def recognise(session: Session, submission: Submission, settings: Settings) -> Recognised:
    """Return the solution's class, with its inferred contract. Raises CannotAuthor."""
    file, failures = submission.display_path, []
    found: list[Recognised] = []
    for signature in _list_candidates(session, submission):
        shown = recognition.recognise(session, signature, settings)
        if shown.binding is not None:
            found.append(Recognised(signature, make_open_target(signature, shown.binding)))
        elif shown.unbound is not None:
            failures.append(f"`{signature.name}`: {shown.unbound.tried}")
        elif shown.failure is not None:
            failures.append(f"`{signature.name}` {shown.failure.message}")
    if not found:
        tried = ", ".join(" ".join(failure.split()) for failure in failures)
        raise CannotAuthor(
            f"{file}: no class here is an attention that headcheck knows (softmax attention with "
            f"projections it can find). Tried: {tried}. See docs/own-course.md for what is known"
        )
    return _choose_whole(found, session, file)


def _list_candidates(session: Session, submission: Submission) -> Sequence[Signature]:
    file, name = submission.display_path, submission.name
    try:
        found = definitions.parse_outline(session.read_outline())
    except SubmissionFailed as failed:
        raise CannotAuthor(f"{file}: cannot be read: {failed.message}") from None
    candidates = infer.list_candidates(found, (), name)
    if candidates:
        return candidates
    others = infer.list_candidates(found, (), None)
    listed = ", ".join(f"`{each.name}`" for each in others)
    has = f"there are {listed}; name one with --class" if others else "it has none at all"
    which = "class with a `forward`" if name is None else f"class `{name}` with a `forward`"
    raise CannotAuthor(f"{file}: there is no {which}; {has}")


def _choose_whole(found: Sequence[Recognised], session: Session, file: str) -> Recognised:
    """Return the class that no other class uses. Raises CannotAuthor if there are several."""
    source = read_source(session.data, session.kind)  # type: ignore[arg-type]
    parts: set[str] = set()
    for each in found:
        own = each.signature.name
        for statement in compute_slice(source, own):
            parts |= statement.effects.kills - {own}
    whole = [each for each in found if each.signature.name not in parts]
    if len(whole) == 1:
        return whole[0]
    names = ", ".join(f"`{each.signature.name}`" for each in (whole or found))
    raise CannotAuthor(f"{file}: several classes are attention: {names}; name one with --class")


def accept(
    session: Session,
    submission: Submission,
    recognised: Recognised,
    contract: Contract,
    settings: Settings,
) -> Exercise:
    """Judge a solution, and return its exercise. Raises WrongSolution, CannotAuthor.

    A right solution in an unusual style may break a property about the demands of a statement. That
    property is then also waived for students.
    """
    _check_all_used(session, submission, contract, settings)
    # These are about the solution's style, such as its range of scores or devices.
    stated = (p for p in families.ALL if Capability.STATED in p.needs)
    optional = {p.name for p in stated if p.group in WAIVABLE}
    for _ in range(MAX_ROUNDS):
        exercise = replace(recognised.target.exercise, contract=contract)
        target = replace(recognised.target, exercise=exercise)
        with DefinitionGrader(session, settings) as grader:
            judged = judge(ask(target), grader.run, FOLLOW_UPS)
            record = grader.record(judged, submission)
        broken = [each.name for each in record.properties if each.status in FAILED]
        if record.error is not None:
            raise WrongSolution(record)
        if not broken:
            return exercise
        if record.diagnosis or not set(broken) <= optional:
            raise WrongSolution(record)
        contract = replace(contract, waived=(*contract.waived, *broken))
    raise WrongSolution(record)


def _check_all_used(
    reading: Session, submission: Submission, contract: Contract, settings: Settings
) -> None:
    """Raise CannotAuthor if the solution has weights that the equation does not use."""
    case = contract.fit(PROBE)
    session = reading.start_successor(settings.get_limits(None), by_hand=settings.by_hand)
    with contextlib.closing(session):
        try:
            session.load(contract.name)
            subject = ChannelSubject(session)
            adapter = construct(subject, contract, case, seed=1)
            tensors = adapter.holder.describe_tensors()
        except SubmissionFailed:
            return  # the verdicts say so
    known = contract.get_parameter_shapes(case)
    unused = [p for p, t in tensors.items() if t.kind == "parameter" and p not in known]
    if unused:
        listed = ", ".join(f"`{path}`" for path in unused[:MOST_LISTED])
        raise CannotAuthor(
            f"{submission.display_path}: `{contract.name}` has weights that take no part in what "
            f"it computes: {listed}; use them, or leave them out"
        )
