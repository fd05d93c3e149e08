"""Find out whether a matched class applies dropout to its attention weights."""

import re
from collections.abc import Iterator
from dataclasses import replace

import torch

from headcheck.properties.binding.bench import Bench, Settled, is_close
from headcheck.properties.binding.intent import quote_shared_dropout
from headcheck.properties.contracts.contract import CONSTANT, Argument, Capability, Contract
from headcheck.properties.contracts.variant import find_visible
from headcheck.properties.harness.harness import Harness
from headcheck.properties.mistakes.recognisers.answers import Answers
from headcheck.properties.mistakes.recognisers.dropout import recognise_dropout
from headcheck.properties.mistakes.recognisers.recogniser import recognise
from headcheck.properties.terms.case import Case

C = Capability
RATE = 0.5
ELSEWHERE = "dropout_not_on_weights"
"""a mistake that does not count without a statement, if dropout acts on the output"""
NEVER = "dropout_never"
"""a mistake only if the name of the rate says that weights should be dropped"""
OF_WEIGHTS = re.compile(
    r"p|(?!.*(path|proj|resid|layer|hidden|ff|mlp|emb|out_|token|depth)).*drop.*", re.IGNORECASE
)
"""names of rates that are those of weights, if no other rate is an argument"""
OTHER_RATES = frozenset({"dropout_of_another_rate", "dropout_not_asked_for", "dropout_twice"})
"""mistakes that do not count if an argument may be the rate of another dropout"""


def settle_dropout(bench: Bench) -> Settled:
    """Keep dropout in the contract only if it acts on the weights or a mistake explains it."""
    settled = bench.settled
    if not bench.contract.has(C.DROPOUT) or bench.match.inexact:
        return settled
    said = quote_shared_dropout(bench.signature)
    if not said and _concerns_weights(bench):
        return settled
    for name, contract in () if said else _iter_single_rates(settled.contract):
        single = replace(settled, contract=contract)
        if _concerns_weights(replace(bench, settled=single)):
            return single.add(f"of its rates only `{name}` is judged: the others drop other things")
    kept = settled.contract.capabilities - {C.DROPOUT}
    arguments = tuple(map(_switch_off, settled.contract.arguments))
    contract = replace(settled.contract, capabilities=kept, arguments=arguments)
    why = f"the class says “{said}”" if said else "where it acts is not known"
    return replace(settled, contract=contract).add(f"its dropout is not judged: {why}")


def _concerns_weights(bench: Bench) -> bool:
    """Whether dropout can be judged: it acts on the weights, or a known mistake explains it."""
    case = replace(bench.case, dropout=RATE)
    calm = bench.call(bench.contract.call_form, bench.x, case=case)
    if not bench.match.mistakes and not is_close(calm, bench.compute().output):
        return True  # it is wrong at rest
    claims = [_drops_before_softmax, _shows_the_future]
    # Beside a residual, rounding hides by what number a kept weight is multiplied.
    if not bench.contract.call_form.adds_tokens:
        claims = [_drops_weights, _has_known_mistake, *claims]
    return any(claim(bench, case) for claim in claims)


def _iter_single_rates(contract: Contract) -> Iterator[tuple[str, Contract]]:
    """Yield the contract with each of its rates as the only one, if there are several."""
    every = (each for a in contract.arguments for each in (a, *a.fields))
    rates = [each.name for each in every if each.quantity == "dropout"]
    for name in rates if len(rates) > 1 else ():
        others = (_switch_off(argument, name) for argument in contract.arguments)
        yield name, replace(contract, arguments=tuple(others))


def _switch_off(argument: Argument, kept: str = "") -> Argument:
    """Return an argument with dropout off, if it is a rate or a config that contains rates."""
    if argument.quantity == "dropout" and argument.name != kept:
        return replace(argument, quantity=CONSTANT, default=0.0)
    return replace(argument, fields=tuple(_switch_off(each, kept) for each in argument.fields))


def settle_steadiness(bench: Bench) -> Settled:
    """Require that training equals evaluation if the class drops nothing without being asked to."""
    if not bench.contract.has(C.MODULE):
        return bench.settled
    form = bench.contract.call_form
    calm, training = bench.call(form, bench.x), bench.call(form, bench.x, training=True)
    if calm and training and is_close(training, calm[0].double()):
        return bench.settled.claim(C.STEADY)
    return bench.settled.add("in training it drops something at another rate, which is not judged")


def _drops_weights(bench: Bench, case: Case) -> bool:
    """Whether training drops weights: if all tokens have the same value, only parts of it arrive.

    If outputs were dropped, all of the value or nothing would arrive.
    """
    zero = {name: torch.zeros_like(t) for name, t in bench.parameters.items() if name[0] == "b"}
    first = torch.zeros_like(bench.parameters.W_v)
    first[:, 0] = 1
    mixed = {} if bench.parameters.W_o is None else {"W_o": torch.eye(case.d_out).double()}
    parameters = replace(bench.parameters, W_v=first, **mixed, **zero)
    alike = torch.zeros_like(bench.parameters.W_q)
    parameters = replace(parameters, W_q=alike)  # all weights of a token are equal
    x = bench.x.clone()
    x[..., 0] = 1
    results = bench.call(
        bench.contract.call_form, x, case=case, training=True, parameters=parameters
    )
    if not results or results[0].shape[1:] != (case.tokens, case.d_out):
        return False
    keep = find_visible(bench.contract, case, case.tokens)
    visible = torch.tensor(case.tokens) if keep is None else keep.sum(-1)
    counts = results[0] * (visible.view(1, -1, 1) * (1 - RATE))
    # Weights that fall with the distance are not equal, so that no number of them is told.
    whole = bool((counts - counts.round()).abs().max() < 1e-5) or not bench.contract.has(C.UNBIASED)
    in_parts = bool(((results[0] > 1e-6) & ((results[0] - 2).abs() > 1e-6)).any())
    heads = results[0].unflatten(-1, (case.heads, case.head_dim))
    alike_in_head = bool((heads - heads[..., :1]).abs().max() < 1e-6)
    return whole and in_parts and alike_in_head


def _has_known_mistake(bench: Bench, case: Case) -> bool:
    harness = Harness(bench.subject, bench.contract)
    harness.contract = bench.contract
    named = recognise(Answers(harness), (recognise_dropout,))
    if not named or named[0].mistake.name in OTHER_RATES:
        return False
    every = (each for a in bench.contract.arguments for each in (a, *a.fields))
    rates = [each.name for each in every if each.quantity == "dropout"]
    if named[0].mistake.name == NEVER and not any(map(OF_WEIGHTS.fullmatch, rates)):
        return False
    return named[0].mistake.name != ELSEWHERE or not _drops_outputs(bench, case)


def _drops_before_softmax(bench: Bench, case: Case) -> bool:
    """Whether training drops only queries, keys or scores: with zero queries, nothing is lost."""
    absent = {n: torch.zeros_like(t) for n, t in bench.parameters.items() if n in ("W_q", "b_q")}
    without = replace(bench.parameters, **absent)
    form = bench.contract.call_form
    training = bench.call(form, bench.x, case=case, training=True)
    even = bench.call(form, bench.x, case=case, parameters=without)
    drawn = bench.call(form, bench.x, case=case, training=True, parameters=without)
    if not (training and even and drawn):
        return False
    return is_close(drawn, even[0]) and not is_close(training, bench.compute().output)


def _shows_the_future(bench: Bench, case: Case) -> bool:
    """Whether training reveals later tokens because dropout also acts on the mask."""
    if not bench.contract.has(C.CAUSAL):
        return False
    changed = bench.x.clone()
    changed[:, -1] += 1
    form = bench.contract.call_form
    drawn = [bench.call(form, x, case=case, training=True) for x in (bench.x, changed)]
    if not all(drawn) or drawn[0][0].shape[1] != case.tokens:
        return False
    before, after = (results[0][:, :-1] for results in drawn)
    return not is_close([after], before)


def _drops_outputs(bench: Bench, case: Case) -> bool:
    """Whether training drops numbers of the output, which is right if no statement forbids it.

    Then about this share of the output is zero; dropped queries or scores make no output zero.
    """
    results = bench.call(bench.contract.call_form, bench.x, case=case, training=True)
    return bool(results) and float((results[0] == 0).double().mean()) > RATE / 3
