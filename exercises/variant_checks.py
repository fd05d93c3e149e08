"""Check whether the variants of a contract fit its sizes, and one another."""

from collections.abc import Iterator

from headcheck.properties.contract import (
    ROTARY,
    Capability,
    Contract,
    FeatureMap,
    Norm,
    Positions,
    Returns,
)
from headcheck.properties.parameter_mapping import (
    BY_HEAD,
    LATENTS,
    NORMS_OF_TOKENS,
    PER_HEAD,
    ParameterMapping,
)

HEAD_DIMS = range(1, 65)
"""the widths of a head to try"""

OF_OTHERS = (*PER_HEAD, "W_gate", "W_down")
"""parameters of variants that are not supported for attention in a block"""

Problem = tuple[tuple[str, ...], object, str]
"""the keys that lead to the fault, the wrong value if the keys lead to several, and advice"""


def check_variant(contract: Contract) -> Iterator[Problem]:
    """Yield the contradictions of a contract in positions, windows, latents and halves."""
    yield from _check_positions(contract)
    if "window" in _take(contract) and Capability.CAUSAL not in contract.capabilities:
        yield ("arguments",), None, "a window ends at the token itself: list `causal`, too"
    if contract.feature_map is not FeatureMap.NONE:
        yield from _check_features(contract)
    if contract.stores("W_down") or _take(contract) & {"d_latent", "rope_dim"}:
        yield from _check_latents(contract)
    if contract.stores("lambdas"):
        yield from _check_halves(contract)
    yield from _check_block(contract)


def _take(contract: Contract) -> set[str]:
    """Return the quantities that arguments, or the fields of a config, take."""
    taken = (each for argument in contract.arguments for each in (argument, *argument.fields))
    return {argument.quantity for argument in taken}


def _check_positions(contract: Contract) -> Iterator[Problem]:
    if contract.rotary_base <= 1:
        yield ("rotary_base",), None, f"must be more than 1, not {contract.rotary_base:g}"
    if not 0 < contract.rotary_share <= 1:
        yield ("rotary_share",), None, f"must be from 0 to 1, not {contract.rotary_share:g}"
    whole = contract.positions in ROTARY and not contract.stores("W_down")
    if whole and _may_be_odd(contract, contract.rotary_share):
        factor = 2 / contract.rotary_share
        text = f"rotations need pairs: let `size_rules` make head_dim a multiple of {factor:g}"
        yield ("positions",), None, text
    if contract.has(Capability.CROSS) and contract.positions is not Positions.NONE:
        yield ("positions",), None, "two sequences have no common positions: leave this out"


def _check_halves(contract: Contract) -> Iterator[Problem]:
    """Check that queries and keys can be halved in differential attention."""
    if _may_be_odd(contract):
        yield ("parameters",), None, "queries and keys are halved: write size_rules = head_dim=even"
    placed = contract.positions is not Positions.NONE or contract.norm is not Norm.NONE
    if placed or contract.stores("sinks"):
        text = "lambdas do not work with positions, norms or sinks: leave one out"
        yield ("parameters",), None, text


def _check_latents(contract: Contract) -> Iterator[Problem]:
    """Check that latents come with a rotating part beside heads, whose width an argument sets."""
    if not contract.stores("W_down") or not _take(contract) >= {"d_latent", "rope_dim"}:
        text = "latents need W_down in [parameters], and arguments that take d_latent and rope_dim"
        yield ("arguments",), None, text
    if contract.positions not in ROTARY or contract.rotary_share != 1:
        text = "with latents all of W_qr and W_kr is rotated: write positions = rotary, no share"
        yield ("positions",), None, text
    held = [name for name in ("sinks", "lambdas", "W_gate") if contract.stores(name)]
    others = contract.norm is not Norm.NONE or Capability.CROSS in contract.capabilities
    if held or others or "kv_heads" in _take(contract):
        text = "latents do not work with norms, sinks, lambdas, a gate, kv_heads or other tokens"
        yield ("parameters",), None, text
    for mapping in contract.mappings:
        yield from _check_latent_mapping(mapping)


def _check_latent_mapping(mapping: ParameterMapping) -> Iterator[Problem]:
    keys, held = ("parameters", mapping.path), set(mapping.holds)
    if held & {"W_k", "W_v"} and held - {"W_k", "W_v"}:
        text = "keys and values are made of latents, the others of tokens: store them apart"
        yield keys, None, text
    if held & set(LATENTS) and (mapping.packing in BY_HEAD or "{head}" in mapping.path):
        yield keys, None, "W_down, W_qr and W_kr are each one matrix for all heads"


def _check_features(contract: Contract) -> Iterator[Problem]:
    """Check that linear attention, which has no softmax, has no feature that needs a softmax."""
    held = [name for name in ("sinks", "lambdas") if contract.stores(name)]
    taken = {argument.quantity for argument in contract.arguments} & {"softcap", "dropout"}
    turned = contract.positions is not Positions.NONE or contract.norm is not Norm.NONE
    turned = turned or contract.scale is not None
    if held or taken or turned or Capability.STABLE in contract.capabilities:
        text = (
            "`features` cannot be combined with scale, positions, norm, sinks, lambdas, softcap or "
            "dropout"
        )
        yield ("feature_map",), None, text
    if Capability.CAUSAL not in contract.capabilities:
        yield ("feature_map",), None, "features are those of causal attention: list `causal`"


def _check_block(contract: Contract) -> Iterator[Problem]:
    """Check that a block has all its parts, and that attention is plain and as wide as tokens."""
    is_block = contract.stores("W_1")
    if not is_block and (contract.token_norm or contract.activation):
        key = "token_norm" if contract.token_norm else "activation"
        yield (key,), None, "belongs to a block: say where W_1 and W_2 are stored, or leave it out"
    if not is_block:
        return
    if not contract.token_norm:
        yield ("token_norm",), None, 'a block norms its tokens: write token_norm = "layer" or "rms"'
    if not contract.activation:
        text = 'a feed-forward has an activation: write activation = "gelu" or "gelu_tanh"'
        yield ("activation",), None, text
    for key in ("hidden_factor", "token_norm_epsilon"):
        if getattr(contract, key) <= 0:
            yield (key,), None, f"must be more than 0, not {getattr(contract, key):g}"
    if not contract.square or not contract.stores("W_o"):
        text = "attention is added to its tokens: write square = true, and say where W_o is"
        yield ("square",), None, text
    needed = NORMS_OF_TOKENS if contract.token_norm is Norm.LAYER else ("gain_in", "gain_ff")
    if missing := [name for name in needed if not contract.stores(name)]:
        yield ("parameters",), None, f"no parameter holds {', '.join(missing)}: say where it is"
    if _may_be_narrow(contract):
        text = "a norm of fewer than three numbers leaves only signs: write d_out>=3"
        yield ("size_rules",), None, text
    yield from _check_alone(contract)


def _may_be_narrow(contract: Contract) -> bool:
    """Return whether the contract allows tokens of only one or two numbers."""
    rules = contract.size_rules
    if contract.sizes and {"heads", "head_dim"} <= contract.sizes.keys():
        return contract.sizes["heads"] * contract.sizes["head_dim"] < 3
    if rules is None:
        return True
    tests = {name: rules.get_test(name) for name in ("d_in", "d_out", "heads", "head_dim")}
    return any(
        tests["heads"](heads)
        and tests["head_dim"](width)
        and tests["d_in"](heads * width)
        and tests["d_out"](heads * width)
        for heads, width in ((1, 1), (1, 2), (2, 1))
    )


def _check_alone(contract: Contract) -> Iterator[Problem]:
    """Check that a block has plain attention, the only kind supported so far."""
    others = [name for name in OF_OTHERS if contract.stores(name)]
    others += sorted(_take(contract) & {"dropout", "window", "softcap", "kv_heads"})
    others += [c.name.lower() for c in (Capability.CROSS,) if c in contract.capabilities]
    others += ["positions"] * (contract.positions is not Positions.NONE)
    others += ["norm"] * (contract.norm is not Norm.NONE)
    others += ["feature_map"] * (contract.feature_map is not FeatureMap.NONE)
    others += ["cache"] * (contract.call_form.cache is not None)
    others += ["mask"] * ("mask" in contract.call)
    others += ["returns"] * (contract.returns is not Returns.OUTPUT)
    if others:
        text = f"a block supports only plain attention so far: leave out {', '.join(others)}"
        yield ("parameters",), None, text


def _may_be_odd(contract: Contract, share: float = 1.0) -> bool:
    """Return whether the contract allows a head of which this share is not an even number."""
    fixed, rules = (contract.sizes or {}).get("head_dim"), contract.size_rules
    allows = (lambda _: True) if rules is None else rules.get_test("head_dim")
    widths = (width for width in HEAD_DIMS if allows(width) and fixed in (None, width))
    return any(width * share % 2 != 0 for width in widths)
