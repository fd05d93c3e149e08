"""Infer which exercise a definition answers, from its name and its signature.

Neither is enough by itself: two exercises share the name `MultiHeadAttention`, and students rename
classes. A definition answers an exercise if it takes the parameters that the exercise names and its
name equals or resembles the exercise's name. If several exercises fit, the one with the closest
name wins.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headcheck.exercises import ALL, BY_SLUG, Exercise, contract_file
from headcheck.exercises.exercise import BadContract
from headcheck.grader import UserError
from headcheck.grader.grading.definitions import DefinitionSignature
from headcheck.grader.reading.layer_code import LayerCode
from headcheck.grader.report.records import ErrorRecord
from headcheck.properties.contracts.contract import Contract, Entry
from headcheck.properties.signatures.signature import Signature
from headcheck.properties.violations.violation import Note

MIN_SIMILARITY = 0.55
OPEN = "attention"
"""the slug of a class that belongs to no exercise"""


class TargetNotFound(UserError):
    """No definition answers any exercise, or the requested one; the message says what was found."""


@dataclass(frozen=True, slots=True)
class Target:
    """A definition and the exercise it is graded on."""

    exercise: Exercise
    name: str
    notes: tuple[Note, ...] = ()
    by_position: bool = False
    """whether the names of its arguments differ from those in the statement"""
    contract: Contract | None = None
    """the contract in this class's own terms, if its arguments or results differ from the
    exercise's"""


@dataclass(frozen=True)
class Inferred:
    """Definitions that answer exercises by their names, and other classes that may be attention."""

    targets: tuple[Target, ...] = ()
    candidates: tuple[Signature, ...] = ()
    functions: tuple[Signature, ...] = ()
    """functions that may be attention; if anything else in the file is judged, these functions
    count as parts of it and are not judged"""
    problem: ErrorRecord | None = None
    """why there are no targets"""
    signatures: Mapping[str, Signature] = field(default_factory=dict)
    """the signatures of all classes and functions that could be attention"""
    code: str = ""
    """a digest of the code of the file; empty if the file cannot be read"""
    classes: tuple[LayerCode, ...] = ()
    """what the code of its classes says"""


def is_open(exercise: Exercise) -> bool:
    """Whether this is the placeholder for a class without an exercise."""
    return exercise.slug == OPEN and not exercise.source  # a folder may have that name


def infer_all(
    found: Sequence[DefinitionSignature], exercise: Exercise | None, name: str | None
) -> Inferred:
    """Return the targets among these definitions: all targets, or only the one with this name."""
    targets, problem = list[Target](), None
    try:
        targets = choose_targets(found, exercise, name)
    except TargetNotFound as missing:
        problem = ErrorRecord("not_found", str(missing))
    known = {d.name: d.signature for d in found if d.signature is not None}
    if exercise is not None:
        return Inferred(tuple(targets), problem=problem, signatures=known)
    classes = list_candidates(found, targets, name)
    functions = _list_signatures([d for d in found if not d.is_class], targets, name)
    return Inferred(tuple(targets), tuple(classes), tuple(functions), problem, known)


def list_candidates(
    found: Sequence[DefinitionSignature], targets: Sequence[Target], name: str | None
) -> list[Signature]:
    """Return the classes that answer no exercise by their names but may be attention."""
    return _list_signatures([d for d in found if d.could_be_module], targets, name)


def _list_signatures(
    found: Sequence[DefinitionSignature], targets: Sequence[Target], name: str | None
) -> list[Signature]:
    """Return the signatures of these definitions, except aliases and those graded already."""
    graded = {target.name for target in targets}
    return [
        d.signature
        for d in found
        if d.signature is not None
        and d.alias_of is None
        and d.name not in graded
        and name in (None, d.name)
    ]


def choose_targets(
    found: Sequence[DefinitionSignature], exercise: Exercise | None, name: str | None
) -> list[Target]:
    """Return the targets. Raises TargetNotFound, with a suggestion if possible."""
    if name is not None and name not in {d.name for d in found}:
        raise TargetNotFound(_describe_undefined(name, found))
    if name is not None:
        found = [d for d in found if d.name == name]
    if exercise is not None:
        chosen = _choose_definition(found, exercise, chosen=name is not None)
        return [_make_target(exercise, chosen)]
    answers = {d.name: (best, d) for d in found if (best := _match_exercise(d)) is not None}
    if not answers:
        raise TargetNotFound(_describe_no_match(found))
    # Another name for a definition that is graded already adds nothing.
    return [_make_target(*each) for each in answers.values() if each[1].alias_of not in answers]


def _make_target(exercise: Exercise, defined: DefinitionSignature) -> Target:
    note = _note_argument_order(defined, exercise.contract)
    by_position = not defined.accepts(exercise.contract)
    return Target(exercise, defined.name, () if note is None else (note,), by_position)


def _note_argument_order(defined: DefinitionSignature, contract: Contract) -> Note | None:
    """Return a note if a constructor takes its arguments in a different order than the statement.

    The order makes no difference when arguments are passed by name, as the grader passes them, but
    it does when they are passed by position.
    """
    names = [argument.name for argument in contract.arguments]
    takes = [name for name in (*defined.required, *defined.optional) if name in names]
    if len(takes) < 2 or takes == [name for name in names if name in takes]:
        return None
    text = f"`{defined.name}` takes ({', '.join(takes)}); the statement says ({', '.join(names)})"
    return Note("argument_order", text, defined.cell, defined.line)


def _match_exercise(defined: DefinitionSignature) -> Exercise | None:
    """Return the exercise that a definition answers, if any."""
    fitting = [e for e in ALL if _fits(defined, e.contract)] or [
        e for e in ALL if defined.name == e.contract.name and _fits_by_position(defined, e.contract)
    ]
    close = [(compute_similarity(defined.name, e), e) for e in fitting]
    close = [(r, e) for r, e in close if r >= MIN_SIMILARITY]
    return max(close, key=lambda pair: pair[0])[1] if close else None


def _fits(defined: DefinitionSignature, contract: Contract) -> bool:
    if contract.entry is Entry.CLASS:
        return defined.could_be_module and defined.accepts(contract)
    return not defined.is_class and defined.name == contract.name and defined.accepts(contract)


def _fits_by_position(defined: DefinitionSignature, contract: Contract) -> bool:
    """Return whether it takes as many arguments as the contract passes, whatever their names."""
    must = sum(not argument.optional for argument in contract.arguments)
    if contract.entry in (Entry.FUNCTION, Entry.TRANSFER):
        must += len(contract.call)
    takes = len(defined.required), len(defined.required) + len(defined.optional)
    same_kind = defined.is_class is (contract.entry is Entry.CLASS)
    return same_kind and takes[0] <= must <= takes[1]


def compute_similarity(name: str, exercise: Exercise) -> float:
    """Return 1 for the exercise's own name, 0.9 for a name that begins like it, less for others."""
    asked = exercise.contract.name
    if name == asked:
        return 1.0
    plain = _normalise_name(name)
    if any(plain.startswith(_normalise_name(other)) for other in (asked, *exercise.aliases)):
        return 0.9
    return difflib.SequenceMatcher(None, plain, _normalise_name(asked)).ratio() * 0.85


def _normalise_name(name: str) -> str:
    return name.replace("_", "").lower()


def _choose_definition(
    found: Sequence[DefinitionSignature], exercise: Exercise, *, chosen: bool
) -> DefinitionSignature:
    """Return the definition that answers a given exercise. Raises TargetNotFound."""
    contract = exercise.contract
    wanted_class = contract.entry is Entry.CLASS
    same_kind = [d for d in found if d.is_class is wanted_class]
    exact = [d for d in same_kind if d.name == contract.name]
    if exact or (chosen and found):
        return (exact or list(found))[0]
    fitting = [d for d in same_kind if _fits(d, contract)]
    close = [d for d in fitting if compute_similarity(d.name, exercise) >= MIN_SIMILARITY]
    if close:
        return max(close, key=lambda d: compute_similarity(d.name, exercise))
    raise TargetNotFound(_describe_undefined(contract.name, found))


def _describe_undefined(name: str, found: Sequence[DefinitionSignature]) -> str:
    names = [d.name for d in found]
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        defined = next(d for d in found if d.name == close[0])
        where = f"cell {defined.cell}" if defined.cell else f"line {defined.line}"
        return f"there is no `{name}`; did you mean `{close[0]}`? found in {where}"
    listed = ", ".join(f"`{n}`" for n in names[:8])
    return f"there is no `{name}`; " + (f"it defines {listed}" if names else "it defines nothing")


def _describe_no_match(found: Sequence[DefinitionSignature]) -> str:
    if not found:
        return "it defines no class and no function"
    for problem in (d.constructor for d in found if d.could_be_module):
        if problem is not None:
            return problem
    for defined in found:
        asked = [describe_signature(e.contract) for e in ALL if e.contract.name == defined.name]
        if asked:
            takes = ", ".join((*defined.required, *defined.optional))
            return f"`{defined.name}` takes ({takes}); it should take {' or '.join(asked)}"
    listed = ", ".join(f"`{d.name}`" for d in found[:8])
    return (
        f"none of its definitions ({listed}) answers an exercise; "
        "name one with --exercise, see `headcheck list`"
    )


def describe_signature(contract: Contract) -> str:
    """Return the call that a contract asks for."""
    names = [argument.name for argument in contract.arguments]
    if not names or contract.entry is Entry.FUNCTION:
        names = [*contract.call, *names]
    return f"`{contract.name}({', '.join(names)})`"


def find_exercise(name: str) -> Exercise:
    """Return the exercise with this slug, or the exercise in this folder.

    Raises TargetNotFound with a suggestion, and BadContract if the folder holds no exercise.
    """
    if name in BY_SLUG:
        return BY_SLUG[name]
    if contract_file.names_folder(name):
        return _load_folder(Path(name))
    close = difflib.get_close_matches(name, BY_SLUG, n=1)
    hint = f"did you mean {close[0]}?" if close else "see `headcheck list`, or name a folder"
    raise TargetNotFound(f"there is no exercise {name!r}; {hint}")


def refuse_slug(slug: str) -> None:
    """Raise TargetNotFound, naming a file to check, if this is the slug of an exercise."""
    if slug not in BY_SLUG:
        return
    files = [name for name in (f"{slug}.ipynb", f"{slug}.py") if Path(name).is_file()]
    advice = f"`headcheck start {slug}` makes one"
    if files:
        advice = "check the file: " + " or ".join(f"`headcheck check {name}`" for name in files)
    raise TargetNotFound(f"{slug} is an exercise, and there is no such file; {advice}")


def _load_folder(folder: Path) -> Exercise:
    """Load an exercise; its slug must be new, because slugs identify results and points."""
    exercise = contract_file.load_exercise(folder)
    if BY_SLUG.get(exercise.slug, exercise) is not exercise:
        raise BadContract(
            f"{exercise.folder / contract_file.CONTRACT_FILE}, line 1: headcheck has an exercise "
            f"{exercise.slug!r} already: give the folder another name"
        )
    return exercise
