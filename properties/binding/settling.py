"""Settle the points that a match leaves open: results, mask, other inputs, options, dropout.

Each step calls the class under a contract that claims more. It keeps the claim if the answer is
exact, or if a known mistake explains the answer; in the second case a check later fails and names
the mistake.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from headcheck.properties.binding.bench import Bench, Settled, is_close, is_right_at
from headcheck.properties.binding.bias_option import settle_bias_option
from headcheck.properties.binding.calls import (
    LENGTHS,
    MASK_CONVENTIONS,
    find_mask_name,
    guess_roles,
    iter_call_forms,
    iter_role_orders,
    list_mask_sources,
    names_roles,
)
from headcheck.properties.binding.dropping import settle_dropout, settle_steadiness
from headcheck.properties.binding.hypotheses import OTHER
from headcheck.properties.binding.intent import expects_causality
from headcheck.properties.binding.matching import Observation, find_mistakes
from headcheck.properties.binding.search import Match
from headcheck.properties.binding.signature import Signature
from headcheck.properties.cases.case_tensors import draw_normal
from headcheck.properties.cases.fitting_mask import restrict_mask
from headcheck.properties.contracts.contract import Argument, Capability, Contract, Returns
from headcheck.properties.contracts.implied_capabilities import restate_steps, takes
from headcheck.properties.harness.module_adapter import construct
from headcheck.properties.subject import Subject
from headcheck.properties.terms.call_form import CallForm, MaskConvention, MaskSource
from headcheck.properties.terms.case import Case
from headcheck.properties.terms.size_rules import parse_sizes

C = Capability
ROUND_SHARES = (0.125, 0.25, 0.5, 0.75)
"""shares of each head that an author may have meant to rotate"""
FAULT = re.compile(r"(NameError|UnboundLocalError|TypeError)(?!.*'Tensor' object)")
"""an error of the code itself, not of the kind of mask that it was given"""
STATED = re.compile(r"AssertionError|ValueError|NotImplementedError")
"""an error with which a class says what it does not take"""
WINDOW = re.compile(r"window|local|span", re.IGNORECASE)
"""names of arguments that may be a window rather than the length of sequences"""


def settle(subject: Subject, signature: Signature, match: Match) -> Settled:
    """Return the whole contract of a matched class. Raises SubmissionFailed if its process ends."""
    settled = Settled(_intend(subject, signature, match))
    for step in (
        _settle_results,
        _settle_window,
        _settle_share,
        _settle_mask,
        _settle_roles,
        settle_bias_option,
        settle_dropout,
        settle_steadiness,
        _settle_sizes,
    ):
        settled = step(Bench(subject, signature, match, settled))
    return settled


def _intend(subject: Subject, signature: Signature, match: Match) -> Contract:
    """Return the contract; later tokens are hidden if the class is meant to hide them."""
    contract = match.contract
    if contract.has(C.CAUSAL) and signature.causal is False:
        return replace(contract, capabilities=contract.capabilities - {C.CAUSAL} | {C.FULL})
    if contract.has(C.CAUSAL):
        return contract
    adapter = construct(subject, contract, match.sizes.case, seed=1)
    tensors = adapter.module.describe_tensors()
    if not expects_causality(signature, adapter.module, tensors):
        return contract
    return replace(contract, capabilities=contract.capabilities - {C.FULL} | {C.CAUSAL})


# ------------------------------------------------------------------------------------ results


def _settle_results(bench: Bench) -> Settled:
    """Find the output and the weights among the results."""
    form, place = bench.contract.call_form, bench.match.place
    results = bench.call(replace(form, places=()), bench.x)
    exact = bench.compute().weights
    found = [
        (number, one_head)
        for number, result in enumerate(results)
        if number != place
        for one_head, wanted in ((False, exact), (True, exact.squeeze(1)))
        if is_close(results, wanted, number)
    ]
    if found:
        number, one_head = found[0]
        own = replace(form, places=(place, number), one_head=one_head)
        contract = replace(bench.contract, call_form=own, returns=Returns.OUTPUT_AND_WEIGHTS)
        return replace(bench.settled, contract=contract).claim(C.WEIGHTS)
    lone = len(results) == 1 and bench.call(form, bench.x)
    places = form.places if lone else (place,)
    contract = replace(bench.contract, call_form=replace(form, places=places))
    settled = replace(bench.settled, contract=contract)
    if len(results) < 2:
        return settled
    return settled.add("only the output is judged, and no other result")


# ------------------------------------------------------------------------------------- window


def _settle_window(bench: Bench) -> Settled:
    """Interpret the longest length as a window if the class accepts longer inputs."""
    arguments = tuple(_name_window(argument) for argument in bench.contract.arguments)
    if not bench.contract.has(C.CAUSAL) or arguments == bench.contract.arguments:
        return bench.settled
    windowed = restate_steps(replace(bench.contract, arguments=arguments))
    if not takes("context_length")(windowed):
        windowed = replace(windowed, capabilities=windowed.capabilities - {C.CONTEXT})
    settled = replace(bench.settled, contract=windowed)
    case = windowed.fit(replace(OTHER, window=4))
    if is_right_at(bench.subject, windowed, case):
        return settled
    longer = replace(bench, settled=settled, sized=case)
    if longer.call(windowed.call_form, longer.x):
        return bench.settled.add(
            "inputs longer than its window are not judged: the right output is not known"
        )
    return bench.settled


def _name_window(argument: Argument) -> Argument:
    """Return an argument with its length, or that of a field, as a window if the name allows it."""
    if argument.quantity == "context_length" and WINDOW.search(argument.name):
        return replace(argument, quantity="window")
    return replace(argument, fields=tuple(_name_window(field) for field in argument.fields))


# -------------------------------------------------------------------------------------- share


def _settle_share(bench: Bench) -> Settled:
    """Judge only one width of heads, unless the same share rotates in heads of other widths.

    The class may rotate a fixed number of coordinates, or a share that was rounded to an even
    number.
    """
    contract, width = bench.contract, bench.match.sizes.case.head_dim
    if contract.rotary_share == 1 or bench.match.mistakes:
        return bench.settled
    wider = contract.fit(replace(OTHER, head_dim=2 * width))
    if contract.rotary_share in ROUND_SHARES and is_right_at(bench.subject, contract, wider):
        return bench.settled
    fixed = contract.with_sizes(parse_sizes(f"head_dim={width}"))
    return replace(bench.settled, contract=fixed).add(
        f"how many coordinates are rotated is known only for heads of {width}: judged with these"
    )


# --------------------------------------------------------------------------------------- mask


def _settle_mask(bench: Bench) -> Settled:
    """Find out the meaning of a mask, its possible shapes, and whether it has an effect."""
    name = find_mask_name(bench.signature.call)
    if name is None:
        return bench.settled
    form = next(
        f
        for f in iter_call_forms(bench.signature.call, bench.signature.given)
        if "mask" in f.inputs
    )
    form = replace(
        bench.contract.call_form,
        inputs=_insert_mask(bench.contract.call_form.inputs, form.inputs),
    )
    required = bench.contract.call_form.mask.required
    errors = set() if required else _list_errors(bench, form, name)
    if len(errors) == 1 and all(map(FAULT.match, errors)):
        return _claim_mask(bench, form)  # so a check fails, and quotes the error
    if errors:
        return bench.settled.add(f"it takes no mask: every call with its `{name}` raises")
    if bench.contract.has(C.CAUSAL):
        return bench.settled.add(
            f"its `{name}` hides later tokens; any other effect of it is not judged"
        )
    for convention in _iter_conventions(name, form):
        own = replace(form, mask=replace(convention, required=required))
        if _follows(bench, own):
            return _claim_mask(bench, own)
    mistaken = _find_mistaken_mask(bench, form, name)
    if mistaken is not None:
        return _claim_mask(bench, mistaken)
    return bench.settled.add(f"the meaning of its argument `{name}` is not known, and not judged")


def _list_errors(bench: Bench, form: CallForm, name: str) -> set[str]:
    """Return what the class raises with any form of mask; nothing if it takes one of them."""
    errors = set[str]()
    for convention in _iter_conventions(name, form):
        for keep in _draw_masks(bench, convention):
            error = bench.find_error(replace(form, mask=convention), bench.x, keep)
            if not error:
                return set()
            errors.add(error)
    return errors


def _insert_mask(inputs: Sequence[str], whole: Sequence[str]) -> tuple[str, ...]:
    """Return the inputs with the mask at its place in the signature."""
    tokens = iter(role for role in inputs if role != "mask")
    return tuple(role if role == "mask" else next(tokens, role) for role in whole)


def _claim_mask(bench: Bench, form: CallForm) -> Settled:
    contract = restate_steps(replace(bench.contract, call_form=form, call=form.inputs))
    kind = C.PADDING if form.mask.keys_only else C.MASK
    return replace(bench.settled, contract=contract).claim(kind, C.TAKES_MASK)


def _iter_conventions(name: str, form: CallForm) -> Iterator[MaskConvention]:
    """Yield what the mask of a form may be, passed as the form says."""
    whole = itertools.product((None, 4, 3, 2), MASK_CONVENTIONS, (False,))
    of_keys = itertools.product((2, 4, 3), MASK_CONVENTIONS, (True,))
    yield from (replace(each, argument=form.mask.argument) for each in list_mask_sources(name))
    for axes, convention, keys_only in (*whole, *of_keys):
        yield replace(convention, axes=axes, keys_only=keys_only, argument=form.mask.argument)


def _draw_masks(bench: Bench, convention: MaskConvention) -> Iterator[Tensor]:
    """Yield masks of all shapes that a convention allows, each of which hides something."""
    b, h, t = bench.case.batch, bench.case.heads, bench.case.tokens
    shapes: dict[int | None, list[tuple[int, ...]]] = {
        None: [(t, t), (b, h, t, t), (b, 1, 1, t)],
        4: [(1, 1, t, t), (b, h, t, t)],
        3: [(b, 1, t, t)],
        2: [(t, t)],
    }
    wanted = [(b, 1, 1, t)] if convention.keys_only else shapes[convention.axes]
    if convention.given_as is not MaskSource.MASK and not convention.keys_only:
        wanted = [(b, 1, t, t)]
    if replace(convention, argument=None) == LENGTHS:  # of each query, or of each sequence
        wanted = [*wanted, (b, 1, 1, t)]
    for number, shape in enumerate(wanted):
        drawn = draw_normal(replace(bench.case, seed=number + 1), "mask", *shape)
        keep = drawn < 0.4
        keep.scatter_(-1, drawn.argmin(-1, keepdim=True), True)
        yield restrict_mask(convention.given_as, keep)


def _follows(bench: Bench, form: CallForm) -> bool:
    """Whether masks in this form are followed, in every shape."""
    batched = bench.contract.has(C.BATCH)
    if batched and form.mask.axes != 2 and bench.case.batch < bench.case.tokens:
        crowded = replace(bench.case, batch=bench.case.tokens + 1)
        if not _follows(replace(bench, sized=crowded), form):
            return False  # a slice for the tokens would cut the batch
    types = (torch.bool, torch.int64, torch.float32) if form.mask.dtype is None else (torch.bool,)
    return all(
        is_close(bench.call(form, bench.x, keep.to(dtype)), bench.compute(keep).output)
        for keep in _draw_masks(bench, form.mask)
        for dtype in types
    )


def _find_mistaken_mask(bench: Bench, form: CallForm, name: str) -> CallForm | None:
    """Return a form in which a mask has no effect, or has the effect of a known mistake."""
    usual = MASK_CONVENTIONS[:4]
    masks = *usual, replace(MASK_CONVENTIONS[1], axes=2, keys_only=True)
    cut = (replace(each, axes=axes) for axes in (3, 4) for each in usual)
    for convention in (*list_mask_sources(name), *masks, *cut):
        own = replace(form, mask=replace(convention, argument=form.mask.argument))
        keep = next(_draw_masks(bench, convention))
        results = bench.call(own, bench.x, keep)
        if not results:
            continue
        alone = replace(bench, sized=replace(bench.case, batch=1))
        if is_close(results, bench.compute().output) or _follows(alone, own):
            return own
        stored = dict(bench.contract.to_stored(bench.parameters, bench.case))
        seen = Observation(bench.x, stored, results[:1], keep)
        if next(find_mistakes(_claim_mask(bench, own).contract, bench.case, seen), None):
            return own
    return None


# -------------------------------------------------------------------------------------- roles


def _settle_roles(bench: Bench) -> Settled:
    """Find out the role of each input, if a call takes several sequences."""
    form = bench.contract.call_form
    tokens = [role for role in form.inputs if role != "mask"]
    if len(tokens) < 2 or bench.contract.has(C.CAUSAL) or bench.match.mistakes:
        return bench.settled
    taken = bench.signature.call[: len(form.inputs)]
    orders = (
        [tuple(guess_roles(taken))] if names_roles(taken) else list(iter_role_orders(form.inputs))
    )
    for longer in (2, 0):
        for order in orders:
            if _follows_roles(bench, replace(form, inputs=order), longer):
                contract = replace(
                    bench.contract, call=order, call_form=replace(form, inputs=order)
                )
                settled = replace(bench.settled, contract=contract)
                offers = longer or ("context" in order and not _demands_one_length(bench, form))
                return settled.claim(C.CROSS) if offers else settled
    return bench.settled.claim(C.CROSS)


def _follows_roles(bench: Bench, form: CallForm, longer: int) -> bool:
    apart = len([role for role in form.inputs if role != "mask"])
    case = replace(bench.case, tokens=bench.case.tokens + longer)
    others = [draw_normal(replace(case, seed=s), "x", *_get_shape(case)) for s in (11, 12)]
    others = others[: apart - 1]
    results = bench.call(form, bench.x, *others, apart=apart)
    return is_close(results, bench.compute(None, *others).output)


def _demands_one_length(bench: Bench, form: CallForm) -> bool:
    """Whether the class itself refuses a context that is longer than the queries."""
    case = replace(bench.case, tokens=bench.case.tokens + 2)
    context = draw_normal(replace(case, seed=11), "x", *_get_shape(case))
    return STATED.match(bench.find_error(form, bench.x, context, apart=2)) is not None


def _get_shape(case: Case) -> tuple[int, int, int]:
    return case.batch, case.tokens, case.d_in


# -------------------------------------------------------------------------------------- sizes


def _settle_sizes(bench: Bench) -> Settled:
    """Exclude a single head if it makes the class differ, for example without an output layer."""
    one = bench.contract.fit(replace(OTHER, heads=1))
    free = bench.contract.has(C.HEADS) and one.heads == 1
    if not free or is_right_at(bench.subject, bench.contract, one):
        return bench.settled
    if not is_right_at(bench.subject, bench.contract, bench.contract.fit(OTHER)):
        return bench.settled
    rules = parse_sizes(f"{bench.contract.size_rules or ''} heads>=2")
    return replace(bench.settled, contract=bench.contract.with_sizes(rules))


def find_free_widths(
    subject: Subject, signature: Signature, match: Match, settled: Settled
) -> Contract | None:
    """Return the contract for input and output of different widths if a class breaks at those.

    None if it has no argument for each width, or demands equal ones itself: then it promises none.
    """
    contract = settled.contract
    quantities = {a.quantity for whole in contract.arguments for a in whole.fields or (whole,)}
    if not contract.square or not {"d_in", "d_out"} <= quantities:
        return None
    free = replace(contract, square=False)
    bench = Bench(subject, signature, match, replace(settled, contract=free), OTHER)
    return None if STATED.match(bench.find_error(free.call_form, bench.x)) else free
