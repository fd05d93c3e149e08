"""The capabilities that the rest of a contract implies, so that authors need not list them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from headcheck.properties.contracts.contract import Capability, Contract, Entry, Norm, Returns
from headcheck.properties.parts import BROKEN, BROUGHT, brings, keeps, list_laws
from headcheck.properties.parts.part import holds as holds
from headcheck.properties.parts.part import takes as takes
from headcheck.properties.terms.call_form import USUAL, EmptyRow

C = Capability

TOKENS = frozenset({"x", "query", "key", "value", "context"})
"""inputs that are tokens"""
ROLES = ("query", "key", "value")
"""inputs of a function that takes queries, keys and values directly"""


def _fixes(contract: Contract, size: str) -> bool:
    return size in (contract.sizes or {})


def attends(contract: Contract) -> bool:
    """Return whether a contract involves attention weights."""
    return bool({C.CAUSAL, C.FULL} & contract.capabilities)


def _takes_mask(contract: Contract) -> bool:
    return "mask" in contract.call


def _takes_tokens(contract: Contract) -> bool:
    return bool(TOKENS & set(contract.callee.call))


def takes_roles(contract: Contract) -> bool:
    """Return whether the entry point is a function of queries, keys and values."""
    return contract.entry is Entry.FUNCTION and set(ROLES) <= set(contract.call)


IMPLIED: Mapping[Capability, Callable[[Contract], bool]] = {
    C.MODULE: lambda c: c.entry is not Entry.FUNCTION,
    C.STATELESS: lambda c: c.is_handed_parameters and attends(c) and _takes_tokens(c),
    C.ROLES: takes_roles,
    C.ALIGNED: lambda c: (
        C.CROSS in c.capabilities and (C.CAUSAL in c.capabilities or takes("causal")(c))
    ),
    C.ATTENTION: attends,
    C.TOKENS: _takes_tokens,
    C.MASK: lambda c: _takes_mask(c) and not c.call_form.mask.keys_only,
    C.ANY_MASK: lambda c: _takes_mask(c) and c.call_form == USUAL,
    C.PADDING: lambda c: _takes_mask(c) and c.call_form.mask.keys_only,
    C.TAKES_MASK: _takes_mask,
    C.EMPTY_ROWS: lambda c: _takes_mask(c) and c.call_form.mask.empty_row is not EmptyRow.ANYTHING,
    C.STATED: lambda c: True,
    C.HALF: lambda c: True,
    C.STRIDED: lambda c: True,
    C.STEADY: lambda c: c.entry is not Entry.FUNCTION,
    C.CONTEXT: lambda c: takes("context_length", "config")(c) or _fixes(c, "context_length"),
    C.HEADS: lambda c: (
        takes("heads", "config")(c) or _fixes(c, "heads") or c.call_form.axes.are_cut
    ),
    C.WIDTHS: lambda c: _takes_tokens(c) and not c.sizes,
    C.PROJECTED: lambda c: bool(c.mappings),
    C.INITIALISED: lambda c: c.entry in (Entry.CLASS, Entry.BUILDER) and bool(c.mappings),
    C.TRANSFER: lambda c: c.entry is Entry.TRANSFER,
    C.BIAS: takes("bias"),
    C.BIAS_OPTION: takes("bias"),
    C.OUTPUT_PROJECTION: holds("W_o"),
    C.OUTPUT_BIAS: holds("b_o"),
    C.DROPOUT: takes("dropout"),
    C.WEIGHTS: lambda c: c.returns in (Returns.OUTPUT_AND_WEIGHTS, Returns.WEIGHTS_TWICE),
    C.WEIGHTS_OPTION: lambda c: bool(c.call_form.without_weights),
    C.LOGSUMEXP: lambda c: c.returns is Returns.OUTPUT_AND_LOGSUMEXP,
    C.CAUSAL_OPTION: takes("causal"),
    C.CACHE: lambda c: c.call_form.cache is not None,
    C.HANDED_CACHE: lambda c: (k := c.call_form.cache) is not None and not k.is_kept,
    C.CENTRED_NORMS: lambda c: c.token_norm is Norm.LAYER,
    C.CONFIG: takes("config"),
    **{each: partial(brings, capability=each) for each in Capability if each in BROUGHT},
    **{each: partial(keeps, law=each) for each in Capability if each in BROKEN},
}
"""Capabilities that follow from the rest of a contract, each with the condition."""


PLAIN_STEPS = frozenset(
    {
        C.MODULE,
        C.ATTENTION,
        C.TOKENS,
        C.PROJECTED,
        C.INITIALISED,
        C.OUTPUT_PROJECTION,
        C.OUTPUT_BIAS,
        C.CENTRED_NORMS,
    }
)
STEPS = PLAIN_STEPS | BROUGHT - {C.BLOCKED} | BROKEN
"""The implied capabilities that say which steps the equation has. The other capabilities say what
else may be required of a module, which an exercise decides, or how calls of a class behave."""


def restate_steps(contract: Contract) -> Contract:
    """Return the contract with those capabilities of `STEPS` that follow from the rest of it."""
    steps = {each for each in PLAIN_STEPS if IMPLIED[each](contract)}
    laws = list_laws(contract) - {C.BLOCKED}
    return replace(contract, capabilities=contract.capabilities - STEPS | steps | laws)


def complete_capabilities(contract: Contract) -> frozenset[Capability]:
    """Return the capabilities that are listed, and those that follow from the rest."""
    return contract.capabilities | {each for each, follows in IMPLIED.items() if follows(contract)}
