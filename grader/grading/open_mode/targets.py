"""Make targets of classes in terms of their own, with or without an exercise."""

import functools
from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path

from headcheck.exercises import Exercise
from headcheck.grader.grading.infer import OPEN, Target
from headcheck.grader.grading.stated_form import describe_other_weights
from headcheck.properties.binding import grounds
from headcheck.properties.binding.binding import Binding
from headcheck.properties.binding.describe import (
    describe_attention,
    describe_intent,
    list_assumptions,
)
from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.counting import join_words
from headcheck.properties.parts import BROUGHT
from headcheck.properties.signatures.signature import Signature
from headcheck.properties.terms.call_form import MaskConvention
from headcheck.properties.violations.violation import Note

C = Capability
INTENDED = frozenset(
    {
        C.CAUSAL,
        C.FULL,
        C.STATED,
        C.STABLE,
        C.DIVISIBLE,
        C.FUSED,
        C.OUTPUT_PROJECTION,
        C.STRIDED,
        C.HALF,
    }
)
"""capabilities that only the exercise decides, whatever a class does: for example, an answer that
lacks the required output layer is wrong"""
ESSENTIAL = frozenset({C.ATTENTION, C.PROJECTED, C.HEADS, C.BATCH})
"""capabilities whose absence means that a class answers another exercise"""
OWN = frozenset({C.OUTPUT_PROJECTION, C.OUTPUT_BIAS, C.BIAS, C.PADDING, C.CROSS})
"""capabilities that a class may have even if the exercise does not ask for them"""
VARIANTS = BROUGHT - {C.BLOCKED} | {C.CACHE}
"""capabilities that some exercises ask for but that cannot be recognised from behaviour"""
CASES = 12
"""The maximum number of cases for one property. It is smaller than for an exercise, because here
every check runs live."""


def make_open_target(signature: Signature, binding: Binding, apart: Collection[str] = ()) -> Target:
    """Return a class as a target without an exercise; its masks `apart` are judged alone."""
    title = describe_attention(binding.contract)
    exercise = _make_exercise(title, binding.broken or binding.contract)
    read = grounds.RAISES if binding.raises else grounds.FLOWS
    found = [(read if binding.inexact else grounds.COMPUTES).say(title)]
    call = tuple(parameter for parameter in signature.call if parameter.name not in apart)
    found += [*list_assumptions(replace(signature, call=call), binding.contract), *binding.remarks]
    if binding.broken:
        found.append(grounds.WIDTHS.say())
    if apart:
        names = join_words([f"`{name}`" for name in apart])
        found.append(grounds.MASKS.say(names))
    found.append(describe_intent(binding.contract))
    return Target(exercise, signature.name, _make_notes(found))


@functools.lru_cache(maxsize=32)
def _make_exercise(title: str, contract: Contract) -> Exercise:
    """Return what a contract asks; where it is asked again, its cases are not planned again."""
    return Exercise(OPEN, title, contract, Path(), cases=CASES)


def make_adapted_target(signature: Signature, target: Target, binding: Binding) -> Target | None:
    """Return the target of an answer whose arguments or results differ from the statement's.

    The answer is judged by the exercise in the answer's own terms, and properties about
    capabilities that it lacks fail. Returns None if the answer is another kind of attention, or has
    other sizes, as if it were written for another exercise.
    """
    asked = target.exercise.contract
    fixed = (binding.contract.sizes or {}).keys() - (asked.sizes or {}).keys()
    if not asked.has(C.HEADS):
        fixed -= {"heads"}  # there is one either way
    if asked.capabilities & VARIANTS:
        return None  # what is recognised has none of this
    if binding.contract.call_form.bypassed:
        return None  # no exercise asks for norms of tokens around attention
    if fixed or not asked.capabilities & ESSENTIAL <= binding.contract.capabilities:
        return None
    contract = adapt_contract(asked, binding.contract)
    found = [
        f"{_describe_difference(asked, contract, signature)}, so it is judged by its behaviour"
    ]
    found += [
        f"the statement asks for {wanted}, and it has {got}: the check about this fails"
        for wanted, got in describe_other_weights(contract, asked)
    ]
    assumed = (
        [] if _takes_the_same(asked, contract, signature) else list_assumptions(signature, contract)
    )
    found += [*assumed, *binding.remarks]
    notes = (*target.notes, *_make_notes(found))
    return replace(target, notes=notes, contract=contract)


def _takes_the_same(asked: Contract, own: Contract, signature: Signature) -> bool:
    """Whether an answer is constructed and called as the statement says."""
    arguments = {argument.name for argument in asked.arguments}
    inputs = tuple(n for n in asked.call_form.inputs if n != "mask" or asked.has(C.MASK))
    taken = {each.name for each in signature.constructor}
    return taken == arguments and own.call_form.inputs == inputs


def _describe_difference(asked: Contract, own: Contract, signature: Signature) -> str:
    """Describe how an answer differs from the statement."""
    if _takes_the_same(asked, own, signature):
        paths, named = ({m.path for m in each.mappings} for each in (own, asked))
        if paths != named and own.returns is asked.returns:
            which = "lacks weights that" if paths < named else "has other weights than"
            return f"it {which} the statement names"
        if own.returns is asked.returns and describe_other_weights(own, asked):
            return "it stores its weights in another way than the statement says"
        return "its results differ from the statement"
    names = ", ".join(argument.name for argument in asked.arguments)
    return f"its arguments or results differ from the statement, `{asked.name}({names})`"


def adapt_contract(asked: Contract, found: Contract) -> Contract:
    """Return an exercise's contract in the terms of a class: its arguments, weights and results."""
    kept = asked.capabilities & (found.capabilities | INTENDED)
    if found.call_form.mask == MaskConvention():
        kept |= asked.capabilities & {C.ANY_MASK}
    # Nothing may be kept.
    form = replace(found.call_form, reset=None, forgets=None, cleared=(), cache=None)
    return replace(
        found,
        call_form=form,
        waived=asked.waived,
        capabilities=kept | found.capabilities & OWN,
        scale=asked.scale,
        square=asked.square or found.square,
    )


def _make_notes(texts: Iterable[str]) -> tuple[Note, ...]:
    return tuple(Note("recognised", text) for text in texts)
