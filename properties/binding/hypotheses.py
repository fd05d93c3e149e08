"""Hypotheses about a constructed module: its sizes, and the contracts it may satisfy."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from headcheck.properties.binding.constructors import Constructor
from headcheck.properties.binding.layouts import list_stored
from headcheck.properties.contracts.contract import ROTARY, Capability, Contract, Positions
from headcheck.properties.contracts.implied_capabilities import restate_steps
from headcheck.properties.contracts.parameter_mapping import ParameterMapping
from headcheck.properties.parts.positions import ScalingKind, StatedScaling
from headcheck.properties.parts.relative import iter_conventions
from headcheck.properties.parts.scores import USUAL_SOFTCAP
from headcheck.properties.subject import TensorInfo
from headcheck.properties.terms.call_form import CallForm, TokenAxes
from headcheck.properties.terms.case import Case
from headcheck.properties.terms.size_rules import parse_sizes

C = Capability
PROBE = Case(
    batch=2, tokens=5, context_length=7, d_in=10, heads=4, head_dim=6, sharpness=2, seed=3001
)
"""No size equals another, or is twice or three times another, so no size is mistaken for another.
There are several heads, so that True is not mistaken for the number of heads."""
OTHER = Case(
    batch=3, tokens=9, context_length=9, d_in=16, heads=2, head_dim=8, sharpness=2, seed=3002
)
"""a case for confirmation: all sizes differ from those of PROBE, and sizes that a class may require
to be powers of two are powers of two"""
NARROW = Case(
    batch=2, tokens=9, context_length=9, d_in=3, heads=2, head_dim=2, sharpness=2, seed=3004
)
"""another case for confirmation: every width is smaller than the number of tokens, so no width is
mistaken for it"""
WIDE = replace(PROBE, head_dim=16, seed=3003)
"""a case with heads so wide that every usual share of them is even"""
FULL = replace(PROBE, tokens=PROBE.context_length, seed=3005)
"""a case as long as its context, since some classes work only on sequences of this length"""
WIDER = 5
"""how much wider a context is than the tokens, if it has a width of its own"""
LATENT, BESIDE = 22, 8
"""the width of a latent, and of what rotates beside a head, to construct a class with"""
WINDOWS = {"side": 9, "sides": 12}
"""the tokens in a window to construct a class with, by what its arguments say of the window. In 12,
3 by 4, neither side is how many offsets the other has, which is one less than twice as many"""
ROTARY_SHARES = (1.0, 0.5, 0.25, 0.75, 0.375, 0.125)
"""the shares of each head that may rotate: 0.4 of 16, rounded down to an even number, is 0.375"""
ROTARY_BASES = (10_000.0, 500_000.0, 1_000_000.0)
"""the bases of rotary positions in models"""
SCALED_MODELS: tuple[tuple[float, StatedScaling], ...] = (
    *((5e5, StatedScaling(ScalingKind.LLAMA3, factor, 8192, 1, 4)) for factor in (8, 32)),
    *((1e4, StatedScaling(ScalingKind.LINEAR, factor)) for factor in (2, 4, 8)),
    (1e6, StatedScaling(ScalingKind.LINEAR, 8)),
    *((1e4, StatedScaling(ScalingKind.NTK, factor)) for factor in (2, 4, 8)),
    *((1e4, StatedScaling(ScalingKind.YARN, factor, 4096)) for factor in (16, 32)),
    (1e6, StatedScaling(ScalingKind.YARN, 4, 32768)),
    (1.5e5, StatedScaling(ScalingKind.YARN, 32, 4096, truncate=False)),
)
"""the base and the scaling of models: Llama 3.1 and 3.2; Vicuna, LongChat and Gemma 3; Llama 2 with
a larger base; Llama 2 by YaRN's authors, Qwen 2.5 and 3, gpt-oss"""
ALIBI_HEADS = (1, 2, 4, 8, 16, 32)
"""the numbers of heads for which ALiBi's slopes are unambiguous; others have several conventions"""
ALL_HEADS = 99
"""the group size that means that all heads share keys and values; no case has more heads"""
COUNTS = ("heads", "head_dim", "context_length")
"""quantities that are not widths"""
HEAD_COUNTS = (2, 3, 4, 6, 8, 12, 16)
"""the numbers of heads to try for a class without an argument for them"""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a constructed module, and the names of sizes that no argument changes."""

    case: Case
    fixed: Mapping[str, int]


def make_probe_case(constructor: Constructor, base: Case = PROBE) -> Case:
    """Return the sizes to construct a class with."""
    free = constructor.quantities
    case = base
    if "heads" not in free:
        case = replace(case, heads=1, head_dim=base.d_out)
    if (tokens := WINDOWS.get(min(free & {*WINDOWS}, default=""))) is not None:
        case = replace(case, tokens=tokens, context_length=tokens)
    if {"heads", "kv_heads"} <= free:
        case = replace(case, batch=3, group=2)
    if constructor.inner is not None:
        case = replace(case, head_dim=constructor.inner // case.heads)
    if "d_latent" in free:
        case = replace(case, d_latent=LATENT, rope_dim=BESIDE * ("rope_dim" in free))
    if "softcap" in free:
        case = replace(case, softcap=USUAL_SOFTCAP)
    case = replace(case, d_in=case.d_out) if constructor.square else case
    return replace(case, d_context=case.d_in + WIDER) if "d_context" in free else case


def iter_sizes(
    constructor: Constructor, probe: Case, tensors: Mapping[str, TensorInfo]
) -> Iterator[Sizes]:
    """Yield sizes that the parameters' shapes allow, one head first if no argument sets it."""
    free = constructor.quantities
    shapes = [t.shape for t in list_stored(tensors, probe) if t.is_matrix]
    lengths = list(dict.fromkeys(size for shape in shapes for size in shape if size > 1))
    has_length = bool(free & {"context_length", *WINDOWS})
    fixed_context = None if has_length else _find_context(tensors)
    context = {} if fixed_context is None else {"context_length": fixed_context}
    if constructor.axes.are_cut:
        yield Sizes(replace(probe, d_in=probe.d_out), {})
        return
    if not shapes:  # tokens attend as they are, so all widths are one
        yield Sizes(replace(probe, heads=1, head_dim=probe.d_out, d_in=probe.d_out), {"heads": 1})
        return
    for heads in (probe.heads,) if "heads" in free else (1, *HEAD_COUNTS):
        for width in _iter_widths(free, lengths, heads, probe):
            case = replace(probe, heads=heads, head_dim=width // heads)
            fixed = {} if "heads" in free else {"heads": heads}
            if not free & {"d_out", "head_dim"} and not (constructor.square and "d_in" in free):
                fixed["head_dim"] = width // heads
            for d_in in _iter_inputs(constructor, lengths, width, probe):
                own = {} if "d_in" in free or constructor.square else {"d_in": d_in}
                sized = _limit_context(replace(case, d_in=d_in), fixed_context)
                said = {**fixed, **own, **context}
                yield Sizes(sized, said)
                if "kv_heads" not in free and heads > 1 and _may_share_all(lengths, sized):
                    yield Sizes(replace(sized, group=heads), {**said, "group": ALL_HEADS})


def _may_share_all(lengths: Sequence[int], case: Case) -> bool:
    """Whether a matrix has the width of one head of keys, of keys and values, or of all three."""
    one = case.head_dim
    return bool({one, 2 * one, case.d_out + 2 * one} & {*lengths})


def _iter_widths(
    free: frozenset[str], lengths: Sequence[int], heads: int, probe: Case
) -> Iterator[int]:
    """Yield the possible widths of all heads together."""
    if "d_out" in free:
        widths: Sequence[int] = [probe.d_out]
    elif "head_dim" in free:
        widths = [heads * probe.head_dim]
    elif "d_in" in free:
        widths = [probe.d_in, probe.d_out]
    else:
        widths = [n for n in lengths if n // 3 not in lengths or n % 3]
    yield from (width for width in widths if width % heads == 0)


def _iter_inputs(
    constructor: Constructor, lengths: Sequence[int], width: int, probe: Case
) -> Iterator[int]:
    """Yield the possible widths of the input."""
    if constructor.square:
        yield width
    elif "d_in" in constructor.quantities:
        yield probe.d_in
    else:  # no two sizes are equal, so what an argument says is not fixed
        said = {getattr(probe, quantity) for quantity in constructor.quantities & {*COUNTS}}
        said.add(probe.d_context)
        yield from (length for length in lengths if length not in said)


def _find_context(tensors: Mapping[str, TensorInfo]) -> int | None:
    """Return the side of a square table among the buffers: a mask for the longest sequence."""
    buffers = (info.shape for info in tensors.values() if info.kind == "buffer")
    sides = [shape[-1] for shape in buffers if len(shape) > 1 and shape[-1] == shape[-2] > 1]
    return sides[0] if sides else None


def _limit_context(case: Case, side: int | None) -> Case:
    if side is None:
        return case
    return replace(case, context_length=side, tokens=min(case.tokens, side))


def make_contract(
    name: str,
    constructor: Constructor,
    form: CallForm,
    mappings: Sequence[ParameterMapping],
    sizes: Sizes,
    *,
    causal: bool,
    batched: bool = True,
) -> Contract:
    """Return the contract of a class that computes attention in this way."""
    capabilities = _list_capabilities(constructor, mappings, sizes, causal=causal, batched=batched)
    contract = Contract(
        name=name,
        entry=constructor.entry,
        arguments=constructor.arguments,
        variables=constructor.variables,
        mappings=tuple(mappings),
        call=tuple(form.inputs),
        call_form=constructor.adapt(form),
        capabilities=capabilities,
        square=constructor.square or not mappings,
        sizes=dict(sizes.fixed) or None,
    )
    inner = constructor.inner
    sized = contract if inner is None else contract.with_sizes(parse_sizes(f"d_out={inner}"))
    return restate_steps(sized)


def _list_capabilities(
    constructor: Constructor,
    mappings: Sequence[ParameterMapping],
    sizes: Sizes,
    *,
    causal: bool,
    batched: bool,
) -> frozenset[Capability]:
    """Return the capabilities that do not follow from the rest of the contract."""
    held = {name for mapping in mappings for name in mapping.holds}
    present = {
        C.STABLE: True,
        C.CAUSAL: causal,
        C.FULL: not causal,
        C.BATCH: batched,
        C.WIDTHS: not {"head_dim", "d_in"} & sizes.fixed.keys(),
        C.CONTEXT: "context_length" in constructor.quantities | sizes.fixed.keys(),
        C.HEADS: sizes.case.heads > 1,
        C.BIAS: bool(held & {"b_q", "b_k", "b_v"}),
        C.DROPOUT: "dropout" in constructor.quantities,
    }
    return frozenset(each for each, given in present.items() if given)


def iter_placements(contract: Contract, case: Case) -> Iterator[Contract]:
    """Yield the contract of the same attention with each kind of positions.

    One with learned numbers has no others, but its numbers may be in any order.
    """
    if contract.stores("W_rel"):
        if contract.positions is not Positions.RELATIVE:
            yield from iter_conventions(contract)
        return
    if contract.stores("W_qr"):
        for base, kind in itertools.product(ROTARY_BASES, ROTARY):
            yield restate_steps(replace(contract, positions=kind, rotary_base=base))
        return
    if case.head_dim % 2 == 0:
        for share, base, kind in itertools.product(ROTARY_SHARES, ROTARY_BASES, ROTARY):
            if case.head_dim * share % 2 == 0:
                least = next(n for n in itertools.count(1) if n * share % 2 == 0)
                own = contract.with_sizes(parse_sizes(f"head_dim%{least}"))
                turned = replace(own, positions=kind, rotary_base=base, rotary_share=share)
                yield restate_steps(turned)
    if contract.has(C.CAUSAL) and case.heads in ALIBI_HEADS:
        lowered = restate_steps(replace(contract, positions=Positions.ALIBI))
        yield lowered.with_sizes(parse_sizes(f"heads={','.join(map(str, ALIBI_HEADS))}"))


def iter_scaled_placements(contract: Contract, case: Case) -> Iterator[Contract]:
    """Yield the contract with rotary positions whose frequencies are scaled as in a model."""
    if contract.stores("W_rel") or case.head_dim % 2 or case.head_dim < 4:
        return
    for (base, scaling), kind in itertools.product(SCALED_MODELS, ROTARY):
        least = "head_dim=even head_dim>=4" if scaling.kind is ScalingKind.NTK else "head_dim=even"
        own = contract.with_sizes(parse_sizes(least))
        turned = replace(own, positions=kind, rotary_base=base, rotary_scaling=scaling)
        yield restate_steps(turned)


def iter_usual_placements(contract: Contract, case: Case) -> Iterator[Contract]:
    """Yield the contract with the usual positions: ALiBi, and rotary, its usual base first.

    Other bases are for models that rotate whole heads.
    """
    rarer = []
    for placed in iter_placements(contract, case):
        if placed.positions not in ROTARY or placed.rotary_base == ROTARY_BASES[0]:
            yield placed
        elif placed.rotary_share == 1:
            rarer.append(placed)
    yield from rarer


def iter_readings(form: CallForm) -> Iterator[CallForm]:
    """Yield the interpretations of a call form: the first axis may also be the tokens."""
    yield form
    if form.axes is TokenAxes.BATCH_FIRST:
        yield replace(form, axes=TokenAxes.TOKENS_FIRST)
