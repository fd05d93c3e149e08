"""Settle the role of each sequence of tokens that a call takes: queries, keys, values, context."""

import re
from collections.abc import Sequence
from dataclasses import replace

from headcheck.properties.binding import grounds
from headcheck.properties.binding.bench import Bench, Settled, is_close
from headcheck.properties.binding.calls import QKV, iter_role_orders, names_roles
from headcheck.properties.cases.case_tensors import draw_normal
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.counting import join_words
from headcheck.properties.signatures.signature import SignatureParameter
from headcheck.properties.signatures.vocabulary import guess_role, guess_roles
from headcheck.properties.terms.call_form import CallForm
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import STATED

C = Capability
CONTEXT = re.compile(r"context|(.*_)?memory|kv|x_kv|enc(oder)?_(\w+)|source|src|cross(_\w+)?")
"""names of an option that gives a call other tokens for keys and values"""
SIDES = (
    ("query", re.compile(r"x|q|quer(y|ies)|tgt|target|hidden(_states?)?|dec(oder)?_\w+")),
    ("context", re.compile(r"context|ctx|memory|(x_)?kv|enc(oder)?_\w+")),
)
"""names that say on which side of cross-attention the tokens of an argument are"""


def settle_joining(bench: Bench) -> Settled:
    """Find out whether a class appends its queries' tokens to the context that it is given."""
    form = _find_joining(bench)
    if form is None:
        return bench.settled
    contract = replace(bench.contract, call=form.inputs, call_form=form)
    settled = replace(bench.settled, contract=contract)
    return settled if bench.match.mistakes else settled.claim(C.CROSS)


def _find_joining(bench: Bench) -> CallForm | None:
    """Return the form in which queries see their own tokens beside those of the context.

    Then it does not matter how many of a sequence's tokens are called the context.
    """
    form, x = bench.contract.call_form, bench.x
    if {*form.inputs} - {"mask"} != {"query", "context"} or bench.contract.has(C.CAUSAL):
        return None
    for order in iter_role_orders(form.inputs):
        own = replace(form, inputs=order, joins_queries=True)
        whole = bench.call(own, x)
        parts = bench.call(own, x[:, :2], x[:, 2:], apart=2) if whole else ()
        if is_close(parts, whole[0][:, :2].double() if whole else x):
            return own
    return None


def settle_roles(bench: Bench) -> Settled:
    """Find out the role of each input, if a call takes several sequences."""
    form = _add_context(bench)
    tokens = [role for role in form.inputs if role != "mask"]
    if (
        form.joins_queries
        or len(tokens) < 2
        or bench.contract.has(C.CAUSAL)
        or bench.match.mistakes
    ):
        return bench.settled
    if form != bench.contract.call_form and _demands_one_length(bench, form):
        return bench.settled
    if "context" in form.inputs and _may_ignore_context(bench, form):
        return bench.settled
    taken = bench.signature.call[: len(form.inputs)]
    orders = [form.inputs]
    if form == bench.contract.call_form:
        orders = _list_orders(taken, form)
    for longer in (2, 0):
        for order in orders:
            if _follows_roles(bench, replace(form, inputs=order), longer):
                contract = replace(
                    bench.contract, call=order, call_form=replace(form, inputs=order)
                )
                settled = replace(bench.settled, contract=contract)
                offers = longer or ("context" in order and not _demands_one_length(bench, form))
                return settled.claim(C.CROSS) if offers else settled
    unknown = [p.name for p in taken[1:] if not _says_its_role(p)]
    if unknown:
        names = join_words([f"`{name}`" for name in unknown])
        return bench.settled.add(f"it is not known what is meant by {names}, which is not judged")
    order = orders[0]
    contract = replace(bench.contract, call=order, call_form=replace(form, inputs=order))
    settled = replace(bench.settled, contract=contract).claim(C.CROSS)
    if not _name_sides(taken, form):
        return settled
    named = dict(zip(order, (p.name for p in taken), strict=False))
    return settled.add(grounds.SIDES.say(named["query"], named["context"]))


def _says_its_role(parameter: SignatureParameter) -> bool:
    """Whether the name of an input says that it holds tokens, and which, or that it is a mask."""
    said = guess_role(parameter.name) in (*QKV, "context", "mask")
    return said or _find_side(parameter) != ""


def _find_side(parameter: SignatureParameter) -> str:
    found = (role for role, words in SIDES if words.fullmatch(parameter.name.lower()))
    return next(found, "")


def _list_orders(taken: Sequence[SignatureParameter], form: CallForm) -> list[tuple[str, ...]]:
    """Return the roles that the inputs may have: what their names say, or any."""
    if names_roles(taken):
        return [tuple(guess_roles(taken))]
    sides = _name_sides(taken, form)
    return [sides] if sides else list(iter_role_orders(form.inputs))


def _name_sides(taken: Sequence[SignatureParameter], form: CallForm) -> tuple[str, ...]:
    """Return the roles of two sequences if their names say who attends to whom, or else nothing."""
    said = [_find_side(p) for p, role in zip(taken, form.inputs, strict=False) if role != "mask"]
    if sorted(said) != ["context", "query"]:
        return ()
    remaining = iter(said)
    return tuple(role if role == "mask" else next(remaining) for role in form.inputs)


def _add_context(bench: Bench) -> CallForm:
    """Return the call form, with the context that a class of one sequence takes as an option."""
    form, taken = bench.contract.call_form, bench.signature.call
    second = taken[1] if len(taken) > 1 else None
    if form.inputs[:1] != ("x",) or second is None or not CONTEXT.fullmatch(second.name.lower()):
        return form
    return replace(form, inputs=("query", "context", *form.inputs[1:]))


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


def _may_ignore_context(bench: Bench, form: CallForm) -> bool:
    """Whether an option of the constructor says whether a context counts, and it does not."""
    options = (p for p in bench.signature.constructor if p.default is False)
    if not any("cross" in p.name.lower() for p in options):
        return False
    context = draw_normal(replace(bench.case, seed=11), "x", *_get_shape(bench.case))
    return is_close(bench.call(form, bench.x, context, apart=2), bench.compute().output)


def _get_shape(case: Case) -> tuple[int, int, int]:
    return case.batch, case.tokens, case.d_in
