"""Find out whether an omitted argument gives queries, keys and values a bias."""

from collections.abc import Sequence
from dataclasses import replace

from headcheck.properties.binding.bench import Bench, Settled, is_right_at
from headcheck.properties.binding.hypotheses import OTHER
from headcheck.properties.binding.layouts import StoredTensor, add_biases, list_stored
from headcheck.properties.contracts.contract import Argument, Capability, Contract
from headcheck.properties.harness.module_adapter import construct
from headcheck.properties.signatures.signature import SignatureParameter
from headcheck.properties.signatures.vocabulary import guess_quantity
from headcheck.properties.violations.violation import Status, SubmissionFailed

C = Capability
QKV = frozenset({"W_q", "W_k", "W_v"})


def settle_bias_option(bench: Bench) -> Settled:
    """Claim biases if an argument with "bias" in its name adds them, or changes nothing at all."""
    option = _find_option(bench)
    if option is None:
        return bench.settled
    asked = replace(
        bench.contract,
        arguments=(*bench.contract.arguments, Argument(option.name, "bias", default=False)),
        capabilities=bench.contract.capabilities | {C.BIAS, C.BIAS_OPTION},
    )
    off, on = (_list_stored(bench, asked, bias=bias) for bias in (False, True))
    if on is not None and on == off:
        return replace(bench.settled, contract=_expect_biases(asked))
    contract = None if on is None else _add_biases(asked, on)
    if contract is None or not _is_kept(bench, contract):
        return bench.settled
    return replace(bench.settled, contract=contract)


def _find_option(bench: Bench) -> SignatureParameter | None:
    """Return the argument if queries, keys and values have no bias without it."""
    if any(mapping.is_bias for mapping in bench.contract.mappings):
        return None
    taken = {argument.name for argument in bench.contract.arguments}
    options = [
        parameter
        for parameter in bench.signature.constructor
        if parameter.default is False
        and parameter.name not in taken
        and guess_quantity(parameter.name) == "bias"
    ]
    return options[0] if len(options) == 1 else None


def _list_stored(bench: Bench, asked: Contract, *, bias: bool) -> list[StoredTensor] | None:
    """Return the parameters of a module that is built with or without the option."""
    case = replace(bench.case, bias=bias)
    try:
        module = construct(bench.subject, asked, case, seed=1).module
        return list_stored(module.describe_tensors(unregistered=True), case)
    except SubmissionFailed as failure:
        if failure.status is not Status.CRASHED:
            raise
        return None


def _expect_biases(asked: Contract) -> Contract:
    """Return the contract with a bias beside the weight of each layer of queries, keys and values.

    An option that changes nothing should add them. Of other layers nothing is known.
    """
    layers = [m for m in asked.mappings if m.path.endswith(".weight") and {*m.holds} <= QKV]
    biases = (
        replace(
            layer,
            path=layer.path.removesuffix("weight") + "bias",
            holds=tuple(name.replace("W_", "b_") for name in layer.holds),
        )
        for layer in layers
    )
    return replace(asked, mappings=(*asked.mappings, *biases))


def _add_biases(asked: Contract, stored: Sequence[StoredTensor]) -> Contract | None:
    """Return the contract with the biases of a module built with the option; None without any."""
    complete = add_biases(tuple(m for m in asked.mappings if m.holds != ("b_o",)), stored)
    held = {name for mapping in complete for name in mapping.holds}
    before = {name for mapping in asked.mappings for name in mapping.holds}
    if asked.stores("W_down") and {t.path for t in stored} - {m.path for m in complete}:
        return None  # the layer of latents has no bias in the equation
    if held | before != before | {"b_q", "b_k", "b_v"} or ("b_o" in held) != ("b_o" in before):
        return None  # an option of the output layer cannot be told apart
    return replace(asked, mappings=complete)


def _is_kept(bench: Bench, contract: Contract) -> bool:
    """Whether the class equals the equation with biases; a class with mistakes counts as equal."""
    if bench.match.mistakes or bench.match.inexact:
        return True
    cases = (contract.fit(replace(OTHER, bias=bias)) for bias in (False, True))
    return all(is_right_at(bench.subject, contract, case) for case in cases)
