"""The code under test and its contract, which is named or recognised from the code."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import FunctionType
from typing import Any

from headcheck.exercises.contract_file import load_contract
from headcheck.exercises.exercise import BadContract
from headcheck.grader.grading.infer import TargetNotFound, find_exercise
from headcheck.grader.report.course_file import BadCourseFile, find_course_file, read_course_file
from headcheck.grader.report.feedback import FULL_FEEDBACK, Feedback
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.grader.ui.pytest_plugin.locate import DefinitionNotFound, locate
from headcheck.grader.ui.pytest_plugin.messages import ReplayCommand
from headcheck.grader.ui.pytest_plugin.target_settings import Setting, TargetSettings
from headcheck.properties.binding.binding import NotBound, bind
from headcheck.properties.binding.describe import (
    describe_attention,
    describe_intent,
    list_assumptions,
)
from headcheck.properties.cases.case_set import DEFAULT_COUNT
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.signatures.signature import read_signature
from headcheck.properties.terms.size_rules import BadSizes, parse_sizes

ADVICE = "say what is asked of it with --contract FILE (docs/contract-files.md) or --exercise SLUG"


@dataclass(frozen=True)
class VerifiedTarget:
    """The code under test, its contract, and the assumptions behind the contract."""

    title: str
    namespace: Mapping[str, Any]
    """a namespace that holds the code under the name that the contract looks for"""
    contract: Contract
    replay: ReplayCommand
    cases: int = DEFAULT_COUNT
    assumptions: tuple[str, ...] = ()
    """one sentence each; empty if the contract was named"""
    feedback: Feedback = FULL_FEEDBACK
    """how much a message says about a failure"""
    has_statement: bool = False
    """whether its author has read the statement of an exercise"""


def load_target(settings: TargetSettings) -> VerifiedTarget:
    """Import the code under test and return it with its contract. Raises BadTarget."""
    name, asked = settings.name.text, settings.contract or settings.exercise
    if settings.contract and settings.exercise:
        raise settings.exercise.fail("it has a contract, too: leave one of them out")
    try:
        module, definition = locate(name)
    except DefinitionNotFound as problem:
        raise settings.name.fail(problem) from problem
    if asked is None:
        target = _recognise(settings.name, definition)
    elif asked is settings.exercise:
        target = _load_for_exercise(name, asked)
    else:
        target = _load_for_contract(name, asked)
    own = {**vars(module), target.contract.name: definition}
    target = replace(target, namespace=own, feedback=_read_feedback(settings))
    return _limit_sizes(target, settings.sizes)


def _read_feedback(settings: TargetSettings) -> Feedback:
    """Return how much feedback the course file allows. Raises BadTarget."""
    name, asked, course = settings.name, settings.exercise, settings.course
    exercise = None if asked is None else find_exercise(asked.text)
    file, colon, _ = name.text.rpartition(":")
    beside = Path(file).parent if colon and file.endswith(".py") else Path()
    path = find_course_file(exercise, beside) if course is None else Path(course.text)
    try:
        return read_course_file(path, exercise).feedback or FULL_FEEDBACK
    except BadCourseFile as problem:
        raise (course or name).fail(problem) from problem


def _load_for_exercise(name: str, asked: Setting) -> VerifiedTarget:
    try:
        exercise = find_exercise(asked.text)
    except (BadContract, TargetNotFound) as problem:
        raise asked.fail(problem) from problem
    replay = ReplayCommand(name, ("--exercise", asked.text))
    title = f"{name} as {asked.text}"
    return VerifiedTarget(title, {}, exercise.contract, replay, exercise.cases, has_statement=True)


def _load_for_contract(name: str, asked: Setting) -> VerifiedTarget:
    path = Path(asked.text)
    try:
        contract = load_contract(path)
    except BadContract as problem:
        raise asked.fail(problem) from problem
    replay = ReplayCommand(name, ("--contract", _shorten(path)))
    return VerifiedTarget(f"{name} by {_shorten(path)}", {}, contract, replay)


def _shorten(path: Path) -> str:
    """Return a path relative to the current folder, if it lies below that folder."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _recognise(name: Setting, definition: object) -> VerifiedTarget:
    """Return a class or function with a contract recognised by its results. Raises BadTarget."""
    if not isinstance(definition, type | FunctionType) or not _is_called(definition):
        raise name.fail(f"{name.text} is no class with a `forward`, and no function: {ADVICE}")
    signature = read_signature(definition)
    found = bind(make_subject({signature.name: definition}), signature)
    if isinstance(found, NotBound):
        said = " ".join(found.tried.split())
        raise name.fail(f"{name.text} is not recognised by what it computes ({said}): {ADVICE}")
    title = f"{name.text}, recognised as {describe_attention(found.contract)}"
    intent = describe_intent(found.contract)
    assumed = (*list_assumptions(signature, found.contract), *found.remarks, intent)
    return VerifiedTarget(title, {}, found.contract, ReplayCommand(name.text), assumptions=assumed)


def _is_called(definition: type | FunctionType) -> bool:
    """Whether this is a function, or a class whose instances are modules."""
    return isinstance(definition, FunctionType) or callable(getattr(definition, "forward", None))


def _limit_sizes(target: VerifiedTarget, sizes: Setting | None) -> VerifiedTarget:
    """Return a target that is limited to these sizes. Raises BadTarget."""
    if sizes is None:
        return target
    try:
        contract = target.contract.with_sizes(parse_sizes(sizes.text))
    except BadSizes as problem:
        raise sizes.fail(problem) from problem
    return replace(target, contract=contract, replay=replace(target.replay, sizes=sizes.text))
