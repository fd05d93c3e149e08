"""Bind a class whose calls all raise by the names of its weights: it shows nothing else.

A class that returns an answer is explained by what it computes, or by its flow. That every call
raises proves a mistake only if nothing was guessed: names say what each argument is, and no number
of the class itself stands in the errors, since another size might fit this number.
"""

import re
from collections.abc import Sequence

from headcheck.properties.binding.building import Built, build_all, construct
from headcheck.properties.binding.calls import iter_forms_of, list_mask_names
from headcheck.properties.binding.constructors import Constructor, iter_suggested
from headcheck.properties.binding.extras import iter_meanings
from headcheck.properties.binding.hypotheses import OTHER, WIDE, Sizes, make_contract
from headcheck.properties.binding.intent import expects_causality
from headcheck.properties.binding.layouts import iter_named_layouts, list_stored
from headcheck.properties.binding.roles import CONTEXT
from headcheck.properties.binding.search import BindingSearch, Match
from headcheck.properties.binding.unrecognised import FAULT, find_set_later
from headcheck.properties.cases.case_tensors import draw_normal, make_parameters
from headcheck.properties.contracts.contract import CONSTANT, Capability, Contract
from headcheck.properties.contracts.parameter_mapping import ParameterMapping
from headcheck.properties.harness.module_adapter import construct as construct_adapter
from headcheck.properties.parts.part import Found
from headcheck.properties.signatures.signature import Signature
from headcheck.properties.signatures.vocabulary import guess_role, is_option, suggests_role
from headcheck.properties.subject import CallOptions, Subject
from headcheck.properties.terms.call_form import CallForm
from headcheck.properties.terms.case import Case
from headcheck.properties.terms.size_rules import parse_sizes
from headcheck.properties.violations.violation import STATED, Status, SubmissionFailed

C = Capability
OTHER_AXES = re.compile(r"values to unpack \(expected [4-9], got 3\)")
"""the error of a class that takes images, or tokens that are cut into heads"""
AXIS = re.compile(r"-\d+|dim(ension)?[ :=]+\(?-?\d+|\(line \d+\)|0x[0-9a-f]+|float\d+|\bm[12]\b")
"""numbers in an error that are no sizes"""
NUMBER = re.compile(r"\d+")
PRECISION = re.compile(r"\b(float|double)\b", re.IGNORECASE)
"""what torch says of two operands, in an order that may depend on their sizes"""
TABLE = re.compile(r"cos|sin(?!k)|freq|rot|rope", re.IGNORECASE)
"""names of tensors that rotate queries and keys in pairs"""


def match_by_name(search: BindingSearch) -> Match | None:
    """Return the contract that names suggest for a class whose calls all raise.

    Raises SubmissionFailed if its process ends.
    """
    signature, subject = search.signature, search.subject
    if search.probes or not signature.call or any(map(OTHER_AXES.search, search.failures)):
        return None
    form = _choose_form(signature)
    several = form is not None and len([role for role in form.inputs if role != "mask"]) != 1
    if form is None or (several and not _knows_inputs(signature)):
        return None  # what breaks the class may be which tokens are queries, keys or values
    for built in build_all(subject, signature, search.failures, iter_suggested):
        if not _knows_arguments(built.constructor):
            continue
        for sizes in search.iter_sizes_of(built):
            for mappings in iter_named_layouts(built.tensors, sizes.case):
                if mappings and covers(mappings, built, sizes.case):
                    return _judge(search, built, form, mappings, sizes)
    return None


def _choose_form(signature: Signature) -> CallForm | None:
    """Return the likeliest form of a call, with a mask if `forward` requires one."""
    forms = list(iter_forms_of(signature))
    needs = {p.name for p in signature.call if not p.has_default} & {
        *list_mask_names(signature.call)
    }
    masked = (form for form in forms if form.mask.required) if needs else iter(())
    return next(masked, next(iter(forms), None))


def _knows_inputs(signature: Signature) -> bool:
    """Whether names say what each input is that `forward` requires."""
    required = [p for p in signature.call if not p.has_default]
    unsure = (p for p in required[1:] if guess_role(p.name) in ("x", "context"))
    named = all(CONTEXT.fullmatch(p.name.lower()) for p in unsure)
    return named and all(suggests_role(p.name) for p in required)


def _judge(
    search: BindingSearch,
    built: Built,
    form: CallForm,
    mappings: tuple[ParameterMapping, ...],
    sizes: Sizes,
) -> Match | None:
    """Return the contract of the names if the class raises at all sizes."""
    name, subject = search.signature.name, search.subject
    module = construct(subject, name, built)
    causal = expects_causality(search.signature, module, built.tensors)
    made = make_contract(
        name, built.constructor, form, mappings, sizes, causal=causal, batched=True
    )
    contract = next(iter_meanings(made, Found(built.shapes, sizes.case)))
    if any(TABLE.search(path) for path in built.tensors):
        contract = contract.with_sizes(parse_sizes("head_dim=even"))
    cases = [contract.fit(case) for case in (sizes.case, OTHER, WIDE)]
    if not all(_has_its_shapes(subject, contract, case) for case in cases):
        return None
    errors = [_find_error(subject, contract, case) for case in cases]
    alike = len(set(map(_leave_out_numbers, errors))) == 1 and not _list_constants(errors)
    caused = all(errors) and not find_set_later(search)
    proved = caused and (alike or any(map(FAULT.match, errors)))
    return Match(contract, sizes, inexact=True) if proved else None


def _has_its_shapes(subject: Subject, contract: Contract, case: Case) -> bool:
    """Whether the weights have the shapes of a contract; then its names were read rightly."""
    try:
        stored = construct_adapter(subject, contract, case, seed=1).module.describe_tensors()
    except SubmissionFailed as failure:
        if failure.status is not Status.CRASHED:
            raise
        return True
    shapes = contract.get_parameter_shapes(case)
    return all(stored[path].shape == shapes[path] for path in shapes.keys() & stored.keys())


def _knows_arguments(constructor: Constructor) -> bool:
    """Whether all arguments are known. A class is not to blame if a made-up value breaks it."""
    given = [field for a in constructor.arguments for field in a.fields or (a,)]
    return all(a.quantity != CONSTANT or is_option(a.name) for a in given)


def covers(mappings: tuple[ParameterMapping, ...], built: Built, case: Case) -> bool:
    """Whether the mappings cover all weights of the module."""
    return {m.path for m in mappings} == {t.path for t in list_stored(built.tensors, case)}


def _find_error(subject: Subject, contract: Contract, case: Case) -> str:
    """Return what a call raises; "" if it returns, or if the class refuses the call."""
    x = draw_normal(case, "x", case.batch, case.tokens, case.d_in)
    try:
        adapter = construct_adapter(subject, contract, case, seed=1)
        adapter.set(make_parameters(case, contract))
        adapter.forward(x, None, CallOptions())
    except SubmissionFailed as failure:
        if failure.status is not Status.CRASHED:
            raise
        return "" if STATED.match(failure.message) else failure.message
    return ""


def _leave_out_numbers(error: str) -> str:
    return NUMBER.sub("", PRECISION.sub("", error))


def _list_constants(errors: Sequence[str]) -> set[str]:
    """Return the sizes that stand in the errors of calls of all sizes: they are the class's own."""
    return set.intersection(*({*NUMBER.findall(AXIS.sub("", each))} for each in errors))
