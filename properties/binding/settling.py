"""Settle the points that a match leaves open: results, mask, other inputs, options, dropout.

Each step calls the class under a contract that claims more. It keeps the claim if the answer is
exact, or if a known mistake explains the answer; in the second case a check later fails and names
the mistake.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from headcheck.properties.binding import grounds
from headcheck.properties.binding.bench import Bench, Settled, is_close, is_right_at
from headcheck.properties.binding.bias_option import settle_bias_option
from headcheck.properties.binding.caches import settle_cache
from headcheck.properties.binding.dropping import settle_dropout, settle_steadiness
from headcheck.properties.binding.hypotheses import OTHER
from headcheck.properties.binding.intent import (
    expects_causality,
    find_causal_option,
    quote_causality,
)
from headcheck.properties.binding.masks import settle_mask
from headcheck.properties.binding.roles import settle_joining, settle_roles
from headcheck.properties.binding.search import Match
from headcheck.properties.binding.sizing import (
    settle_lengths,
    settle_output_width,
    settle_share,
    settle_sizes,
    settle_width,
)
from headcheck.properties.contracts.contract import Argument, Capability, Contract, Returns
from headcheck.properties.contracts.implied_capabilities import restate_steps, takes
from headcheck.properties.counting import join_words
from headcheck.properties.harness.module_adapter import construct
from headcheck.properties.listing.summary import select_summaries
from headcheck.properties.parts.positions import Positions
from headcheck.properties.signatures.signature import Signature, SignatureParameter
from headcheck.properties.signatures.vocabulary import FARTHEST, is_known
from headcheck.properties.subject import Subject
from headcheck.properties.terms.call_form import Given
from headcheck.properties.terms.group import PropertyGroup

C = Capability
WEIGHTS_OPTION = re.compile(
    r"(need|return|output|get|give|with)s?_(\w*_)?(weights?|probs?|attns?|attentions?|att|maps?)"
)
"""names of an option with which a call also returns the weights"""
WEIGHTS = re.compile(r"\battention[ _](weights|probabilities|probs|maps?)\b", re.IGNORECASE)
"""words for weights in the docstring of a class that returns them"""
MAX_NONE = 2
"""how many results that are no tensors may stand before the weights"""
WINDOW = re.compile(r"window|local|span", re.IGNORECASE)
"""names of arguments that may be a window rather than the length of sequences"""
TOKENS = 40
"""tokens whose distances tell one number from another"""
USUAL_FARTHEST = (16, 20, 32, 64, 256, 512)
"""from which distance on all tokens have one learned number, besides 128, if no argument says it"""


def settle(subject: Subject, signature: Signature, match: Match) -> Settled:
    """Return the whole contract of a matched class. Raises SubmissionFailed if its process ends."""
    settled = Settled(_intend(subject, signature, match))
    said = quote_causality(signature)
    if said and not match.contract.has(C.CAUSAL) and settled.contract.has(C.CAUSAL):
        settled = settled.add(grounds.LATER.say(said))
    if any(mistake.name == "keys_and_values_in_turn" for mistake in match.mistakes):
        settled = settled.add(grounds.SHARING.say())
    for step in (
        settle_width,
        _settle_weights_option,
        _settle_results,
        _settle_window,
        settle_share,
        _settle_farthest,
        settle_joining,
        settle_mask,
        settle_roles,
        settle_bias_option,
        settle_dropout,
        settle_steadiness,
        settle_sizes,
        settle_lengths,
        settle_cache,
        _settle_gradients,
        _settle_idle_parameters,
        settle_output_width,
    ):
        settled = step(Bench(subject, signature, match, settled))
    return settled


def _intend(subject: Subject, signature: Signature, match: Match) -> Contract:
    """Return the contract; later tokens are hidden if the class is meant to hide them."""
    contract = match.contract
    option = find_causal_option(signature)
    if option is not None and not contract.has(C.CAUSAL):
        given = {**(contract.call_form.given or {}), option: Given.TRUE}
        contract = replace(contract, call_form=replace(contract.call_form, given=given))
        return replace(contract, capabilities=contract.capabilities - {C.FULL} | {C.CAUSAL})
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


def _settle_weights_option(bench: Bench) -> Settled:
    """Ask for weights in every call if an option does this; without them the output is the same."""
    option = _find_weights_option(bench.signature)
    if option is None:
        return bench.settled
    form = bench.contract.call_form
    asking = {**(form.given or {}), **({} if option.default else {option.name: Given.TRUE})}
    form = replace(form, given=asking or None, without_weights={option.name: False})
    if not bench.call(replace(form, places=()), bench.x):
        return bench.settled
    return replace(bench.settled, contract=replace(bench.contract, call_form=form))


def _find_weights_option(signature: Signature) -> SignatureParameter | None:
    options = (p for p in signature.call if type(p.default) is bool)
    return next((p for p in options if WEIGHTS_OPTION.fullmatch(p.name)), None)


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
        or (_promises_weights(bench) and results[number].shape == wanted.shape)
    ]
    if found:
        number, one_head = found[0]
        returned = _find_returned(bench, results[number], number)
        own = replace(form, places=(place, returned), one_head=one_head)
        contract = replace(bench.contract, call_form=own, returns=Returns.OUTPUT_AND_WEIGHTS)
        return replace(bench.settled, contract=contract).claim(C.WEIGHTS)
    lone = len(results) == 1 and bench.call(form, bench.x)
    places = form.places if lone else (place,)
    contract = replace(bench.contract, call_form=replace(form, places=places))
    settled = replace(bench.settled, contract=contract)
    if len(results) < 2:
        return settled
    return settled.add("only the output is judged, and no other result")


def _find_returned(bench: Bench, result: Tensor, number: int) -> int:
    """Return the place of a result among all that is returned, if the place among tensors is known.

    Others may be None, such as a cache that was not asked for.
    """
    for place in range(number, number + MAX_NONE + 1):
        got = bench.call(replace(bench.contract.call_form, places=(place,)), bench.x)
        if got and is_close(got, result.double()):
            return place
    return number


def _promises_weights(bench: Bench) -> bool:
    """Whether a class says that it returns weights of each head, by an option or a docstring."""
    named = _find_weights_option(bench.signature) is not None
    return bench.contract.has(C.HEADS) and (
        named or WEIGHTS.search(bench.signature.doc) is not None
    )


# ---------------------------------------------------------------------------------- gradients


def _settle_gradients(bench: Bench) -> Settled:
    """Ask for no gradients if a decorator of the class says that it gives none."""
    if not bench.signature.for_inference:
        return bench.settled
    asked = select_summaries(bench.contract)
    waived = tuple(each.name for each in asked if each.group is PropertyGroup.GRADIENTS)
    contract = replace(bench.contract, waived=(*bench.contract.waived, *waived))
    settled = replace(bench.settled, contract=contract)
    return settled.add("it is for inference, as its code says: gradients are not judged")


# -------------------------------------------------------------------------- other parameters


def _settle_idle_parameters(bench: Bench) -> Settled:
    """Leave parameters aside that an option may need, if nobody knows what to pass for it."""
    unknown = [p.name for p in bench.signature.call if p.has_default and not is_known(p.name)]
    if not unknown:
        return bench.settled
    built = construct(bench.subject, bench.contract, bench.case, seed=1).module.describe_tensors()
    named = bench.contract.get_parameter_shapes(bench.case)
    idle = [path for path, info in built.items() if info.kind == "parameter" and path not in named]
    if not idle:
        return bench.settled
    waived = (*bench.contract.waived, "there_are_no_other_parameters")
    settled = replace(bench.settled, contract=replace(bench.contract, waived=waived))
    which, many = join_words([f"`{path}`" for path in idle]), len(idle) > 1
    be, it = ("are", "them") if many else ("is", "it")
    return settled.add(f"{which} {be} not judged: calls with `{unknown[0]}` may need {it}")


# ------------------------------------------------------------------------------------- window


def _settle_window(bench: Bench) -> Settled:
    """Interpret the longest length as a window if the class accepts longer inputs.

    An argument that is None by default may set the window, too.
    """
    option = _find_window_option(bench)
    arguments = tuple(_name_window(argument) for argument in bench.contract.arguments)
    if option in bench.signature.options:
        arguments = tuple(_add_window(argument, option.name) for argument in arguments)
    elif option is not None:
        arguments += (Argument(option.name, "window"),)
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
    answers = longer.call(windowed.call_form, longer.x)
    if answers and bench.signature.own_token:
        return settled.add(grounds.WINDOW.say(bench.signature.own_token))
    if answers and option is None:
        return bench.settled.add(
            "inputs longer than its window are not judged: the right output is not known"
        )
    if answers and option is not None and _shows_later(longer, answers[0]):
        return settled.add(f"with `{option.name}` it should still hide later tokens")
    return bench.settled


def _shows_later(bench: Bench, output: Tensor) -> bool:
    """Whether the last token changes what a class gives for those before it."""
    other = bench.x.clone()
    other[:, -1] = other[:, -1].flip(-1) + 1
    again = bench.call(bench.contract.call_form, other)
    alike = bool(again) and again[0].shape == output.shape
    return alike and not torch.allclose(again[0][:, :-1], output[:, :-1])


def _find_window_option(bench: Bench) -> SignatureParameter | None:
    """Return the argument, or the field of a config, with which a class may have a window."""
    every = (*bench.signature.constructor, *bench.signature.options)
    options = (p for p in every if p.has_default and p.default is None)
    passed = {each.name for a in bench.contract.arguments for each in (a, *a.fields)}
    return next((p for p in options if WINDOW.search(p.name) and p.name not in passed), None)


def _add_window(argument: Argument, name: str) -> Argument:
    """Return an argument with a window among its fields, if it is a config."""
    if argument.quantity != "config":
        return argument
    return replace(argument, fields=(*argument.fields, Argument(name, "window")))


def _name_window(argument: Argument) -> Argument:
    """Return an argument with its length, or that of a field, as a window if the name allows it."""
    if argument.quantity == "context_length" and WINDOW.search(argument.name):
        return replace(argument, quantity="window")
    return replace(argument, fields=tuple(_name_window(field) for field in argument.fields))


# -------------------------------------------------------------------------- learned distances


def _settle_farthest(bench: Bench) -> Settled:
    """Take the distance that an argument names, or that long sequences show, instead of T5's."""
    contract = bench.contract
    if contract.positions is not Positions.RELATIVE or bench.match.mistakes:
        return bench.settled
    case = contract.fit(replace(OTHER, tokens=TOKENS, context_length=TOKENS))
    nearest = contract.relative_buckets // (2 if contract.has(C.CAUSAL) else 4)
    for farthest in (contract.relative_farthest, *_iter_farthest(bench), *USUAL_FARTHEST):
        if farthest <= nearest:  # so many distances have numbers of their own
            continue
        other = replace(contract, relative_farthest=farthest)
        if is_right_at(bench.subject, other, case):
            return replace(bench.settled, contract=other)
    return bench.settled


def _iter_farthest(bench: Bench) -> Iterator[int]:
    for parameter in (*bench.signature.constructor, *bench.signature.variables):
        if FARTHEST.search(parameter.name) and type(parameter.default) is int:
            yield parameter.default
