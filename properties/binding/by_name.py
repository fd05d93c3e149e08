"""Bind a class by the names of its weights if nothing explains what it computes.

This happens only if the class breaks a law of all attention: it raises, an output depends on other
sequences, two calls differ, or the weights of a token do not sum to one. A class that breaks no
such law may be another kind of attention, and is not called wrong. A class that is right for a
single sequence is judged on single sequences, since some classes that are not meant for a batch
still accept one.
"""

import re
from dataclasses import replace

import torch
from torch import Tensor

from headcheck.properties.binding.bench import is_right_at
from headcheck.properties.binding.building import Built, build_all, construct
from headcheck.properties.binding.calls import iter_forms_of, list_mask_names
from headcheck.properties.binding.constructors import Constructor, iter_suggested
from headcheck.properties.binding.extras import iter_meanings
from headcheck.properties.binding.hypotheses import OTHER, WIDE, Sizes, make_contract
from headcheck.properties.binding.intent import expects_causality
from headcheck.properties.binding.layouts import iter_named_layouts, list_stored
from headcheck.properties.binding.search import BindingSearch, Match
from headcheck.properties.binding.signature import Signature
from headcheck.properties.binding.usual_values import is_option
from headcheck.properties.binding.vocabulary import suggests_role
from headcheck.properties.cases.case_tensors import draw_normal, make_parameters
from headcheck.properties.contracts.contract import CONSTANT, Capability, Contract
from headcheck.properties.contracts.parameter_mapping import ParameterMapping
from headcheck.properties.harness.module_adapter import construct as construct_adapter
from headcheck.properties.parts.part import Found
from headcheck.properties.subject import CallOptions, Subject
from headcheck.properties.terms.call_form import CallForm
from headcheck.properties.terms.case import Case
from headcheck.properties.terms.size_rules import parse_sizes
from headcheck.properties.violations.violation import Status, SubmissionFailed
from headcheck.reference import Parameters

C = Capability
OTHER_AXES = re.compile(r"values to unpack \(expected [4-9], got 3\)")
"""the error of a class that takes images, or tokens that are cut into heads"""
REFUSAL = re.compile(r"AssertionError|NotImplementedError")
"""an error with which a class says that it is not meant for such calls"""
TABLE = re.compile(r"cos|sin(?!k)|freq|rot|rope", re.IGNORECASE)
"""names of tensors that rotate queries and keys in pairs"""


def match_by_name(search: BindingSearch) -> Match | None:
    """Return the contract that names suggest for a class that is not attention, or that crashes.

    Raises SubmissionFailed if its process ends.
    """
    signature, subject = search.signature, search.subject
    if any(map(OTHER_AXES.search, search.failures)):
        return None
    form = _choose_form(signature)
    several = form is not None and len([role for role in form.inputs if role != "mask"]) != 1
    if form is None or (several and (search.probes or not _knows_inputs(signature))):
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
    return all(suggests_role(p.name) for p in signature.call if not p.has_default)


def _judge(
    search: BindingSearch,
    built: Built,
    form: CallForm,
    mappings: tuple[ParameterMapping, ...],
    sizes: Sizes,
) -> Match | None:
    """Return the contract of the names if the class is right without a batch or breaks a law."""
    name, subject = search.signature.name, search.subject
    module = construct(subject, name, built)
    causal = expects_causality(search.signature, module, built.tensors)

    def make(*, causal: bool, batched: bool) -> Contract:
        given = name, built.constructor, form, mappings, sizes
        made = make_contract(*given, causal=causal, batched=batched)
        return next(iter_meanings(made, Found(built.shapes, sizes.case)))

    for hides in (causal, not causal):
        alone = make(causal=hides, batched=False)
        if all(is_right_at(subject, alone, alone.fit(case)) for case in (sizes.case, OTHER)):
            return Match(alone, sizes)
    contract = make(causal=causal, batched=True)
    if any(TABLE.search(path) for path in built.tensors):
        contract = contract.with_sizes(parse_sizes("head_dim=even"))
    cases = [contract.fit(case) for case in (sizes.case, OTHER, WIDE)]
    fits = all(_has_its_shapes(subject, contract, case) for case in cases)
    broken = fits and all(_breaks_a_law(subject, contract, case) for case in cases)
    return Match(contract, sizes, inexact=True) if broken else None


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


def _breaks_a_law(subject: Subject, contract: Contract, case: Case) -> bool:
    try:
        return _does_not_average(subject, contract, case)
    except SubmissionFailed as failure:
        if failure.status is not Status.CRASHED:
            raise
        return REFUSAL.match(failure.message) is None


def _does_not_average(subject: Subject, contract: Contract, case: Case) -> bool:
    """Whether outputs are not averages of their own sequence's values, or differ between calls."""
    every = replace(contract, call_form=replace(contract.call_form, places=()))
    adapter = construct_adapter(subject, every, case, seed=1)
    x = draw_normal(case, "x", case.batch, case.tokens, case.d_in)
    x[..., 0] = 1

    def call(parameters: Parameters, tokens: Tensor) -> tuple[Tensor, ...]:
        adapter.set(parameters)
        return adapter.forward(tokens, None, CallOptions()).outputs

    drawn = make_parameters(case, contract)
    whole, again, alone = call(drawn, x), call(drawn, x), call(drawn, x[:1])
    if not any(t.dim() > 1 and t.shape[:2] == x.shape[:2] for t in whole):
        return False  # it asks for some tokens only, or pools them
    sums = call(_make_constant_values(drawn), x)
    ones = torch.ones(case.batch, case.tokens, case.d_out, dtype=torch.float64)
    averages = contract.has(C.NORMALISED, C.UNGATED, C.UNNORMED)
    return not any(
        (_is_close(total, ones) or not averages)
        and _is_close(other, one)
        and _is_close(first, one[:1])
        for one, other, first, total in zip(whole, again, alone, sums, strict=False)
    )


def _is_close(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one.double(), other.double(), atol=1e-5)


def _make_constant_values(drawn: Parameters) -> Parameters:
    """Return parameters whose values are each token's first number, with no output mixing."""
    values = torch.zeros_like(drawn.W_v)
    values[:, 0] = 1
    no_bias = {n: torch.zeros_like(t) for n, t in drawn.items() if n in ("b_v", "b_o")}
    mixing = {} if drawn.W_o is None else {"W_o": torch.eye(len(drawn.W_o), dtype=values.dtype)}
    return replace(drawn, W_v=values, **mixing, **no_bias)
