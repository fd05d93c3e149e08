"""The capabilities that the rest of a contract implies, so that authors need not list them."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from headcheck.properties.call_form import USUAL, EmptyRow
from headcheck.properties.contract import (
    ROTARY,
    Argument,
    Capability,
    Contract,
    Entry,
    FeatureMap,
    Norm,
    Positions,
    Returns,
)

C = Capability

TOKENS = frozenset({"x", "query", "key", "value", "context"})
"""inputs that are tokens"""
ROLES = ("query", "key", "value")
"""inputs of a function that takes queries, keys and values directly"""


def takes(*quantities: str) -> Callable[[Contract], bool]:
    """Return a test for whether a contract's arguments take one of these quantities."""
    return lambda contract: any(a.quantity in quantities for a in _list_taken(contract))


def _list_taken(contract: Contract) -> list[Argument]:
    """Return the arguments, including the fields of a config."""
    return [each for argument in contract.arguments for each in (argument, *argument.fields)]


def holds(name: str) -> Callable[[Contract], bool]:
    """Return a test for whether a contract stores the parameter of this name."""
    return lambda contract: any(name in mapping.holds for mapping in contract.mappings)


def _fixes(contract: Contract, size: str) -> bool:
    return size in (contract.sizes or {})


def _shares_keys(contract: Contract) -> bool:
    return takes("kv_heads")(contract) or _fixes(contract, "group")


def _is_normed(contract: Contract) -> bool:
    return contract.norm is not Norm.NONE or holds("gain_q")(contract)


def attends(contract: Contract) -> bool:
    """Return whether a contract involves attention weights."""
    return bool({C.CAUSAL, C.FULL} & contract.capabilities)


def _may_hide_later_tokens(contract: Contract) -> bool:
    return C.CAUSAL in contract.capabilities or takes("causal")(contract)


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
    C.ALIGNED: lambda c: C.CROSS in c.capabilities and _may_hide_later_tokens(c),
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
    C.BLOCKED: takes("block"),
    C.CAUSAL_OPTION: takes("causal"),
    C.GROUPED: _shares_keys,
    C.WINDOW: takes("window"),
    C.SOFTCAP: takes("softcap"),
    C.POSITIONS: lambda c: c.positions is not Positions.NONE,
    C.CACHE: lambda c: c.call_form.cache is not None,
    C.HANDED_CACHE: lambda c: (k := c.call_form.cache) is not None and k.reset is None,
    C.SINKS: holds("sinks"),
    C.SOFTMAX: lambda c: c.feature_map is FeatureMap.NONE,
    C.FEATURES: lambda c: c.feature_map is not FeatureMap.NONE,
    C.DIFFERENTIAL: holds("lambdas"),
    C.ONE_MAP: lambda c: not holds("lambdas")(c),
    C.CONSTANT_SUM: lambda c: not holds("sinks")(c),
    C.NORMALISED: lambda c: not holds("sinks")(c) and not holds("lambdas")(c),
    C.LATENT: holds("W_down"),
    C.UNCOMPRESSED: lambda c: not holds("W_down")(c),
    C.GATED: holds("W_gate"),
    C.UNGATED: lambda c: not holds("W_gate")(c),
    C.BLOCK: holds("W_1"),
    C.CENTRED_NORMS: lambda c: c.token_norm is Norm.LAYER,
    C.BARE: lambda c: not holds("W_1")(c),
    C.OWN_KEYS: lambda c: not _shares_keys(c),
    C.ANY_DISTANCE: lambda c: not takes("window")(c),
    C.PLACELESS: lambda c: c.positions is Positions.NONE,
    C.UNBIASED: lambda c: c.positions is not Positions.ALIBI,
    C.UNNORMED: lambda c: not _is_normed(c),
    C.DOT_PRODUCT: lambda c: (
        c.positions not in ROTARY
        and not takes("softcap")(c)
        and c.feature_map is FeatureMap.NONE
        and not _is_normed(c)
    ),
    C.CONFIG: takes("config"),
}
"""Capabilities that follow from the rest of a contract, each with the condition."""


STEPS = frozenset(
    {
        C.MODULE,
        C.ATTENTION,
        C.TOKENS,
        C.PROJECTED,
        C.INITIALISED,
        C.OUTPUT_PROJECTION,
        C.OUTPUT_BIAS,
        C.GROUPED,
        C.OWN_KEYS,
        C.WINDOW,
        C.ANY_DISTANCE,
        C.SOFTCAP,
        C.POSITIONS,
        C.PLACELESS,
        C.UNBIASED,
        C.UNNORMED,
        C.DOT_PRODUCT,
        C.SOFTMAX,
        C.FEATURES,
        C.SINKS,
        C.DIFFERENTIAL,
        C.ONE_MAP,
        C.CONSTANT_SUM,
        C.NORMALISED,
        C.LATENT,
        C.UNCOMPRESSED,
        C.GATED,
        C.UNGATED,
        C.BLOCK,
        C.CENTRED_NORMS,
        C.BARE,
    }
)
"""The implied capabilities that say which steps the equation has. The other capabilities say what
else may be required of a module, which an exercise decides, or how calls of a class behave."""


def restate_steps(contract: Contract) -> Contract:
    """Return the contract with those capabilities of `STEPS` that follow from the rest of it."""
    steps = {each for each in STEPS if IMPLIED[each](contract)}
    return replace(contract, capabilities=contract.capabilities - STEPS | steps)


def complete_capabilities(contract: Contract) -> frozenset[Capability]:
    """Return the capabilities that are listed, and those that follow from the rest."""
    return contract.capabilities | {each for each, follows in IMPLIED.items() if follows(contract)}
