"""Construct a class with the arguments that its names suggest, or with any that work."""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import torch

from headcheck.properties.binding.calls import iter_forms_of
from headcheck.properties.binding.constructors import (
    SCALES,
    Constructor,
    resolve_fields,
    suggest_field,
)
from headcheck.properties.binding.hypotheses import PROBE, WINDOWS, make_probe_case
from headcheck.properties.contracts.contract import CONSTANT, Argument, Entry, list_numbers
from headcheck.properties.parts.relative import TABLE_NAMES
from headcheck.properties.signatures.signature import Signature
from headcheck.properties.signatures.vocabulary import QUERY_RANK
from headcheck.properties.subject import Module, Subject, TensorInfo
from headcheck.properties.terms.call_form import USUAL, CallForm, list_sizes
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import Status, SubmissionFailed, format_location
from headcheck.reference import rotary_angles

ConstructorSource = Callable[[Signature], Iterator[Constructor]]
MAX_FIELDS = 24
"""the most values that a class may read from a config"""
MAX_NUMBERS = 1 << 26
"""the most numbers of a module that is built with another width: half a gigabyte"""
KEPT = re.compile(r"(?!.*(cos|sin|freq|rot|rope|mask|bias|tril|pos)).*(cache|past|memory|history)")
"""names of tensors that keep what earlier calls computed"""
KEPT_AXES = 3
"""the fewest axes of such a tensor: batch, tokens, width"""
WINDOW_NAME = re.compile(r"window|swin|w_?msa", re.IGNORECASE)
"""the name of a class that may cut images into windows"""
UNSEEN = ("heads", "dropout", *SCALES)
"""quantities that no shape of a tensor shows"""
UNFILLED = "uninitialized parameter"
"""in an error about a lazy layer that was not called yet"""
MISSING = re.compile(r"has no attribute '(\w+)'|KeyError: '(\w+)'")


@dataclass(frozen=True, eq=False)
class Built:
    """A working way to construct the class, and the tensors of the module."""

    constructor: Constructor
    case: Case
    tensors: Mapping[str, TensorInfo]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the tensors, by path."""
        return {path: info.shape for path, info in self.tensors.items()}


def build_all(
    subject: Subject,
    signature: Signature,
    failures: list[str],
    source: ConstructorSource,
    base: Case = PROBE,
) -> Iterator[Built]:
    """Yield ways to construct a class that differ in the shapes of its tensors.

    The ways also differ in quantities that no shape shows, such as the number of heads.

    `failures` gets the errors of failed constructions. Raises SubmissionFailed if the process of
    the submission ends.
    """
    seen: set[object] = set()
    for constructor in source(signature):
        completed = _complete_config(subject, signature, constructor, failures)
        case = make_probe_case(completed, base)
        built = _try_build(subject, signature, completed, case, failures)
        if built is not None and any(0 in shape for shape in built.shapes.values()):
            completed = _make_latents(completed)
            built = _try_build(subject, signature, completed, case, failures)
        if built is not None and _may_be_windowed(signature, built):
            shapes = tuple((path, info.shape) for path, info in built.tensors.items())
            unseen = tuple(a for a in completed.arguments if a.quantity in UNSEEN)
            shared = "kv_heads" in completed.quantities
            key = (shapes, unseen, shared, completed.square, completed.axes)
            if key not in seen:
                seen.add(key)
                yield built
            wide = _fit_inner_width(built)
            if wide is not None:
                again = _try_build(subject, signature, wide[0], wide[1], failures)
                if again is not None:
                    yield again


def _make_latents(constructor: Constructor) -> Constructor:
    """Return the constructor with latents of queries that have a width."""

    def widen(argument: Argument) -> Argument:
        fields = tuple(map(widen, argument.fields))
        is_rank = argument.name == QUERY_RANK
        return replace(argument, fields=fields, default=6 if is_rank else argument.default)

    return replace(constructor, arguments=tuple(map(widen, constructor.arguments)))


def _may_be_windowed(signature: Signature, built: Built) -> bool:
    """Whether a class that takes the sides of a window has numbers for the offsets in it.

    One whose name speaks of windows may take images, which it cuts into them.
    """
    windowed = bool(built.constructor.quantities & {*WINDOWS})
    named = WINDOW_NAME.search(signature.name) is not None
    return not windowed or named or any(map(TABLE_NAMES.search, built.tensors))


def _fit_inner_width(built: Built) -> tuple[Constructor, Case] | None:
    """Return the constructor for heads whose total width equals a fixed width of the input.

    If the number and the width of heads are arguments, but the width of a token is not, an output
    layer may map the total width to the width of a token. In the equation the two are equal.
    """
    free = built.constructor.quantities
    if not {"heads", "head_dim"} <= free or free & {"d_in", "d_out"}:
        return None
    known = {built.case.heads, built.case.head_dim, built.case.d_out, built.case.context_length}
    shapes = [t.shape for t in built.tensors.values() if t.kind != "buffer" and len(t.shape) > 1]
    others = {size for shape in shapes for size in shape} - known
    widths = [w for w in others if w and w % built.case.heads == 0]
    if len(widths) != 1 or widths[0] ** 2 * len(shapes) > MAX_NUMBERS:
        return None  # that of a feed-forward, perhaps of many layers
    head_dim = widths[0] // built.case.heads
    case = replace(built.case, head_dim=head_dim, d_in=widths[0])
    return replace(built.constructor, square=True, inner=widths[0]), case


def construct(subject: Subject, name: str, built: Built, form: CallForm = USUAL) -> Module:
    """Construct the class again, for calls in this form. Raises SubmissionFailed."""
    return _construct(subject, name, built.constructor, built.case, form)


def _construct(
    subject: Subject,
    name: str,
    constructor: Constructor,
    case: Case,
    form: CallForm = USUAL,
    given: str = "by name",
) -> Module:
    width = case.rope_dim or case.head_dim // 2 * 2
    turned = rotary_angles(2, width, 1e4, torch.empty(1, dtype=torch.float64))
    rotation = {"frequencies": turned[1].tolist(), "factor": 1.0}  # as in most models
    own = constructor.adapt(form).to_meta(
        case.heads,
        rotation=rotation,
        context_width=case.d_context,
        width=case.d_in,
        sizes=list_sizes(case, is_limited="context_length" in constructor.quantities),
    )
    variables = list_numbers(constructor.variables, case)
    if constructor.entry is Entry.FUNCTION:
        return subject.get_function(name, variables, own)
    arguments = {a.name: a.get_value(case) for a in constructor.arguments}
    return subject.construct(
        name, arguments, 0, "float64", given=given, form=own, variables=variables
    )


def _try_build(
    subject: Subject,
    signature: Signature,
    constructor: Constructor,
    case: Case,
    failures: list[str],
) -> Built | None:
    described = replace(
        USUAL,
        bypassed=signature.bypassed,
        silenced=signature.silenced,
    )
    forms = iter_forms_of(signature) if constructor.is_lazy else [described]
    for form in forms:
        try:
            module = _construct(subject, signature.name, constructor, case, form)
            tensors = module.describe_tensors(unregistered=True)
            kept = tuple(sorted(path for path, info in tensors.items() if _is_kept(path, info)))
            constructor = replace(constructor, cleared=kept)
            return Built(constructor, case, {p: t for p, t in tensors.items() if p not in kept})
        except SubmissionFailed as failure:
            note_failure(failure, failures)
    if constructor.is_lazy or UNFILLED not in failures[-1]:
        return None
    return _try_build(subject, signature, replace(constructor, is_lazy=True), case, failures)


def _is_kept(path: str, info: TensorInfo) -> bool:
    """Whether a tensor keeps what earlier calls computed."""
    plain = info.kind in ("buffer", "unregistered") and len(info.shape) >= KEPT_AXES
    return plain and KEPT.match(path.lower()) is not None


def note_failure(failure: SubmissionFailed, failures: list[str]) -> None:
    """Keep a failure's message and place. Raises the failure if the process is gone."""
    if failure.status is not Status.CRASHED:
        raise failure
    failures.append(failure.message + format_location(failure.cell, failure.line))


# ------------------------------------------------------------------------------------ configs


def _complete_config(
    subject: Subject, signature: Signature, constructor: Constructor, failures: list[str]
) -> Constructor:
    """Return the constructor with all fields that it reads from its config."""
    config = next((a for a in constructor.arguments if a.quantity == "config"), None)
    if config is None:
        return constructor
    on = [Argument(name, CONSTANT, default=True) for name in signature.switched_on]
    fields = [*config.fields, *on]
    for given in itertools.repeat("strictly", MAX_FIELDS):
        complete = _fill_config(constructor, config, fields)
        try:
            _construct(subject, signature.name, complete, make_probe_case(complete), given=given)
            return _without_absent(complete)
        except SubmissionFailed as failure:
            note_failure(failure, failures)
        field = _find_missing(failures[-1], fields)
        if field is None:
            return _without_absent(complete)
        fields = [*(f for f in fields if f.name != field.name), field]
    return _without_absent(complete)


def has_config(built: Built) -> bool:
    """Whether one of the constructor's arguments is a config."""
    return any(a.quantity == "config" for a in built.constructor.arguments)


def extend_config(built: Built, message: str) -> Built | None:
    """Return the construction with the config field that a call missed; None if it missed none."""
    config = next((a for a in built.constructor.arguments if a.quantity == "config"), None)
    field = None if config is None else _find_missing(message, list(config.fields))
    if config is None or field is None:
        return None
    if field.default is None and field.quantity == CONSTANT:
        field = suggest_field(field.name)
    filled = _fill_config(built.constructor, config, [*config.fields, field])
    return replace(built, constructor=filled, case=make_probe_case(filled))


def _find_missing(message: str, fields: list[Argument]) -> Argument | None:
    """Return the field that the class tried to read although the config lacks it.

    A field whose name says nothing is left out at first, because the class may have a default.
    """
    missing = MISSING.search(message)
    if missing is None:
        return None
    field = suggest_field(missing.group(1) or missing.group(2))
    known = {f.name: f for f in fields}
    if field.quantity != CONSTANT:
        return field if field.name not in known else None
    if field.name not in known:
        return replace(field, default=None)
    return field if known[field.name].default is None else None


def _fill_config(constructor: Constructor, config: Argument, fields: list[Argument]) -> Constructor:
    resolved = resolve_fields(fields)
    held = resolved.arguments or (Argument("_", CONSTANT, default=0),)
    filled = replace(config, fields=held)
    arguments = tuple(filled if a is config else a for a in constructor.arguments)
    widths = {"d_in", "d_out", "head_dim"} & {field.quantity for field in resolved.arguments}
    square = resolved.square if widths else constructor.square
    return replace(constructor, arguments=arguments, square=square)


def _without_absent(constructor: Constructor) -> Constructor:
    """Return the constructor without config fields whose existence the class only tested."""
    arguments = (
        replace(
            a, fields=tuple(f for f in a.fields if f.default is not None or f.quantity != CONSTANT)
        )
        for a in constructor.arguments
    )
    return replace(constructor, arguments=tuple(arguments))


def rename_quantities(
    arguments: Iterable[Argument], quantities: Mapping[str, str]
) -> tuple[Argument, ...]:
    """Return arguments, and fields of a config, with other quantities, by their names."""
    return tuple(
        replace(
            each,
            quantity=quantities.get(each.name, each.quantity),
            fields=rename_quantities(each.fields, quantities),
        )
        for each in arguments
    )
