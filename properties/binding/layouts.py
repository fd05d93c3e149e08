"""Ways in which a module's tensors can be the weights of attention."""

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from headcheck.properties.binding.extras import Left, find_claimant, iter_extended, name_roles
from headcheck.properties.contracts.parameter_mapping import HeadSizes, Packing, ParameterMapping
from headcheck.properties.harness.aliases import infer_role
from headcheck.properties.subject import TensorInfo
from headcheck.properties.terms.case import Case

HasEffect = Callable[[str], bool]
"""whether a tensor changes what a module returns, so that it must have a role"""
Allows = Callable[[ParameterMapping, HeadSizes], bool]
"""whether a tensor may hold these projections"""
LayoutSource = Callable[
    [Mapping[str, TensorInfo], Case, HasEffect, Allows], Iterator[tuple[ParameterMapping, ...]]
]
LETTERS = ("q", "k", "v")
BIASES = ("b_q", "b_k", "b_v", "b_o")
ORDERS = ("qkv", "kqv", "qvk", "vqk", "kvq", "vkq")
"""orders of the projections in a fused layer, the usual one first"""
MOST_CHOSEN = 4
"""the most matrices that hold the projections and the output layer"""
MAX_CANDIDATES = 6
"""the most matrices whose assignments to projections are all tried"""
KERNELS = (Packing.CONVOLUTION, Packing.IMAGE_CONVOLUTION)
SINGLE_PACKINGS = (
    Packing.ROWS,
    Packing.INTERLEAVED,
    Packing.STACKED,
    Packing.BETWEEN,
    *KERNELS,
)
FUSED_PACKINGS = (Packing.ROWS, Packing.HEADS, Packing.INTERLEAVED, *KERNELS)
GATED = ("W_q", "W_gate")
"""what a layer for queries holds if it is twice as wide, as in Qwen3-Next"""
BIAS = re.compile(r"(^|[._])b(ias(es)?)?($|[._])|^b[qkvo]", re.IGNORECASE)
LONE_BIAS = re.compile(r"b(ias)?", re.IGNORECASE)
"""the name of a bias that may belong to a fused matrix of any name"""
INDEX = re.compile(r"(^|\.)0(\.|$)")


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A parameter, or the parameters of all heads under one path."""

    path: str
    shape: tuple[int, ...]
    is_matrix: bool
    """whether it is a matrix of weights rather than a bias"""


def list_stored(tensors: Mapping[str, TensorInfo], case: Case) -> list[StoredTensor]:
    """Return the parameters; a list with one parameter for each head becomes a single entry."""
    shapes = {path: info.shape for path, info in tensors.items() if info.kind != "buffer"}
    stored, seen = [], set[str]()
    for path, shape in shapes.items():
        pattern = INDEX.sub(r"\g<1>{head}\g<2>", path, count=1)
        copies = [pattern.format(head=h) for h in range(case.heads)] if "{" in pattern else []
        more = pattern.format(head=case.heads) in shapes
        if len(copies) > 1 and not more and _is_per_head(copies, shapes, case):
            seen.update(copies)
            stored.append(StoredTensor(pattern, shape, _is_matrix(pattern, shape, case)))
        elif path not in seen:
            stored.append(StoredTensor(path, shape, _is_matrix(path, shape, case)))
    return stored


def _is_matrix(path: str, shape: tuple[int, ...], case: Case) -> bool:
    """Whether a tensor holds weights. A bias with a row for each head also has two axes."""
    named = BIAS.search(path) is not None and not path.endswith("weight")
    return len(shape) > 1 and not (named and len(shape) == 2 and shape[0] in (1, case.heads))


def _is_per_head(copies: Sequence[str], shapes: Mapping[str, tuple[int, ...]], case: Case) -> bool:
    """Whether there is one such tensor for each head, and each has a head's width."""
    alike = {shapes.get(copy) for copy in copies}
    shape = next(iter(alike))
    multiples = {case.head_dim, 2 * case.head_dim, 3 * case.head_dim}
    return len(alike) == 1 and shape is not None and bool(multiples & set(shape))


def is_unknown(_: str) -> bool:
    """Say of every tensor that nothing is known of its effect."""
    return False


def is_allowed(_mapping: ParameterMapping, _sizes: HeadSizes) -> bool:
    """Say of every tensor that it may hold any projections."""
    return True


def iter_mappings(
    layouts: LayoutSource,
    tensors: Mapping[str, TensorInfo],
    case: Case,
    has_effect: HasEffect,
    allows: Allows,
) -> Iterator[tuple[ParameterMapping, ...]]:
    """Yield the mappings of these layouts; one without weights if all widths are equal."""
    if any(info.kind != "buffer" for info in tensors.values()):
        yield from layouts(tensors, case, has_effect, allows)
    elif case.d_in == case.d_out:
        yield ()


def iter_named_layouts(
    tensors: Mapping[str, TensorInfo],
    case: Case,
    has_effect: HasEffect = is_unknown,
    allows: Allows = is_allowed,
) -> Iterator[tuple[ParameterMapping, ...]]:
    """Yield the mappings that names suggest, in which every tensor with an effect has a role."""
    stored = list_stored(tensors, case)
    matrices = [t for t in stored if t.is_matrix and find_claimant(t.path) is None]
    yield from _iter_complete(_iter_named(matrices), stored, case, has_effect, allows)
    if case.d_latent:
        for layout in iter_latent_layouts(matrices, case):
            yield from _iter_finished(add_biases(layout, stored), stored, case, has_effect)


def iter_layouts(
    tensors: Mapping[str, TensorInfo],
    case: Case,
    has_effect: HasEffect = is_unknown,
    allows: Allows = is_allowed,
) -> Iterator[tuple[ParameterMapping, ...]]:
    """Yield mappings of all tensors that have an effect; those that names suggest come first."""
    stored = list_stored(tensors, case)
    matrices = [tensor for tensor in stored if tensor.is_matrix]
    plain = [t for t in matrices if find_claimant(t.path) is None]
    named = list(_iter_named(plain))
    choices = itertools.chain(named, _iter_choices(plain if named else matrices))
    yield from _iter_complete(choices, stored, case, has_effect, allows)


def _iter_complete(
    choices: "Iterator[Choice]",
    stored: Sequence[StoredTensor],
    case: Case,
    has_effect: HasEffect,
    allows: Allows,
) -> Iterator[tuple[ParameterMapping, ...]]:
    """Yield the layouts of all choices, with their biases."""
    seen: set[tuple[ParameterMapping, ...]] = set()
    matrices = [Left(t.path, t.shape) for t in stored if t.is_matrix]
    if len(matrices) > MOST_CHOSEN:
        effective = (t for t in matrices if has_effect(t.any_path))
        choices = _leave_parts(choices, {t.path: name_roles(t, case) for t in effective})
    for projections, output in choices:
        for layout in _iter_packings(projections, output, case, allows):
            complete = add_biases(layout, stored)
            if complete not in seen:
                seen.add(complete)
                yield from _iter_finished(complete, stored, case, has_effect)


def _leave_parts(choices: "Iterator[Choice]", roles: Mapping[str, Set[str]]) -> "Iterator[Choice]":
    """Yield the choices beside which each other matrix has a role of its own in a part."""
    if len(roles) > MOST_CHOSEN + len(_join(roles.values())):
        return  # as in a whole layer, or several
    for projections, output in choices:
        chosen = {tensor.path for tensor, _ in projections} | {output.path if output else ""}
        others = [held for path, held in roles.items() if path not in chosen]
        if all(others) and len(others) <= len(_join(others)):
            yield projections, output


def _join(sets: Iterable[Set[str]]) -> Set[str]:
    return frozenset[str]().union(*sets)


def _iter_finished(
    layout: tuple[ParameterMapping, ...],
    stored: Sequence[StoredTensor],
    case: Case,
    has_effect: HasEffect,
) -> Iterator[tuple[ParameterMapping, ...]]:
    """Yield a layout alone, and with each role that the tensors beside it may have.

    Alone it explains nothing if one of these has an effect.
    """
    used = {mapping.path for mapping in layout}
    left = [Left(t.path, t.shape) for t in stored if t.path not in used]
    if not any(has_effect(tensor.any_path) for tensor in left):
        yield layout
    yield from iter_extended(layout, left, case)


LATENT_ROLES: Sequence[tuple[tuple[str, ...], Packing]] = (
    *(((n,), Packing.ROWS) for n in ("W_down", "W_kr", "W_q", "W_qr", "W_k", "W_v", "W_o")),
    *(((a, b), Packing.HEADS) for a, b in (("W_q", "W_qr"), ("W_qr", "W_q"), ("W_k", "W_v"))),
    *(((a, b), Packing.ROWS) for a, b in (("W_q", "W_qr"), ("W_k", "W_v"))),
    *(((a, b), Packing.ROWS) for a, b in (("W_down", "W_kr"), ("W_kr", "W_down"))),
)
"""what a layer of attention with latents may hold, and how"""
NEEDED = {"W_down", "W_q", "W_k", "W_v"}


def iter_latent_layouts(
    matrices: Sequence[StoredTensor], case: Case
) -> Iterator[tuple[ParameterMapping, ...]]:
    """Yield the ways in which all matrices are the layers of attention with latents.

    The width of a latent equals no other, so shapes tell most roles, whatever layers are called.
    """
    sizes = HeadSizes(
        case.d_in, case.heads, case.head_dim, case.kv_heads, case.d_latent, case.rope_dim
    )
    partial: list[tuple[ParameterMapping, ...]] = [()]
    for tensor in matrices:
        linear = tensor.path.endswith("weight")
        every = [ParameterMapping(tensor.path, holds, not linear, p) for holds, p in LATENT_ROLES]
        fitting = [m for m in every if m.compute_shape(sizes, None) == tensor.shape]
        partial = [(*begun, m) for begun in partial for m in fitting if not _overlap(begun, m)]
    for layout in partial:
        held = {name for mapping in layout for name in mapping.holds}
        beside = held & {"W_qr", "W_kr"}
        if held >= NEEDED and len(beside) == (2 if case.rope_dim else 0):
            yield layout


def _overlap(layout: Sequence[ParameterMapping], mapping: ParameterMapping) -> bool:
    return any({*mapping.holds} & {*other.holds} for other in layout)


Choice = tuple[tuple[tuple[StoredTensor, str], ...], StoredTensor | None]
"""tensors with the letters of the projections that they hold, and the output layer"""


def _iter_named(matrices: Sequence[StoredTensor]) -> Iterator[Choice]:
    """Yield the choice that names suggest, if there are names for all projections."""
    roles: dict[tuple[str, ...], list[StoredTensor]] = {}
    for tensor in matrices:
        roles.setdefault(infer_role(tensor.path) or (), []).append(tensor)
    outputs = roles.get(("o",), [])
    rest = roles.get((), [])
    output = outputs[0] if outputs else rest[0] if len(rest) == 1 else None
    if all(len(roles.get((letter,), ())) == 1 for letter in LETTERS):
        yield tuple((roles[(letter,)][0], letter) for letter in LETTERS), output
    fused = roles.get(("q", "k", "v"), [])
    if len(fused) == 1:
        named = (order for order in ORDERS if order in fused[0].path.lower())
        for order in dict.fromkeys((*named, *ORDERS)):
            yield ((fused[0], order),), output


def _iter_choices(matrices: Sequence[StoredTensor]) -> Iterator[Choice]:
    """Yield every choice of one to three tensors for the projections, and of an output layer."""
    few = matrices[:MAX_CANDIDATES]
    for tensor in few:
        others = [other for other in few if other is not tensor]
        for output, order in itertools.product([*others, None], ORDERS):
            yield ((tensor, order),), output
    for pair in itertools.permutations(few, 2):
        others = [other for other in few if other not in pair]
        for output, letter in itertools.product([*others, None], LETTERS):
            rest = [other for other in LETTERS if other != letter]
            for order in ("".join(rest), "".join(reversed(rest))):
                yield ((pair[0], letter), (pair[1], order)), output
    for triple in itertools.permutations(few, 3):
        others = [other for other in few if other not in triple]
        for output in [*others, None] if others else [None]:
            yield tuple(zip(triple, LETTERS, strict=True)), output


def _iter_packings(
    projections: Sequence[tuple[StoredTensor, str]],
    output: StoredTensor | None,
    case: Case,
    allows: Allows,
) -> Iterator[tuple[ParameterMapping, ...]]:
    """Yield the ways in which tensors of these shapes can hold these projections."""
    own = case.d_in, case.heads, case.head_dim, case.kv_heads
    sizes = HeadSizes(*own, d_context=case.d_context)
    fitting = (_list_fitting(tensor, letters, sizes) for tensor, letters in projections)
    options = [[each for each in every if allows(each, sizes)] for every in fitting]
    outputs = () if output is None else _list_fitting(output, "o", sizes)
    if not all(options) or (output is not None and not outputs):
        return
    for combination in itertools.product(*options):
        if not outputs and _are_alike(combination):
            yield combination
        for mapping in outputs:
            if _are_alike((*combination, mapping)):
                yield (*combination, mapping)


def _are_alike(layout: Sequence[ParameterMapping]) -> bool:
    """Whether similar tensors have the same layout: nobody transposes one layer out of three."""
    single = {m.packing for m in layout if len(m.holds) == 1 and not m.is_output}
    packings = {m.packing for m in layout if not m.is_output}
    output = {m.packing for m in layout if m.is_output}
    linear = {m.transposed for m in layout if m.path.endswith("weight")}
    plain = {m.transposed for m in layout if not m.path.endswith("weight")}
    # An output of three axes is seen from its shape; another one needs such projections.
    mixed = output - {Packing.ROWS, Packing.STACKED, Packing.BETWEEN} - packings
    return max(len(single), len(linear), len(plain)) <= 1 and not mixed


@functools.lru_cache(maxsize=4096)  # each tensor is part of hundreds of choices
def _list_fitting(
    tensor: StoredTensor, letters: str, sizes: HeadSizes
) -> tuple[ParameterMapping, ...]:
    """Return the mappings that are compatible with a tensor's shape."""
    holds = tuple(f"W_{letter}" for letter in letters)
    per_head = "{head}" in tensor.path
    packings: Sequence[Packing] = FUSED_PACKINGS if len(letters) > 1 else SINGLE_PACKINGS
    if per_head:
        packings = (Packing.ROWS,)
    elif sizes.heads == 1:
        packings = tuple(p for p in packings if p in (Packing.ROWS, *KERNELS))
    linear = tensor.path.endswith("weight")
    ways = [(holds, packing) for packing in packings]
    if letters == "q" and sizes.heads > 1 and not per_head:
        ways += [(GATED, packing) for packing in (Packing.HEADS, Packing.ROWS)]
    every = (
        ParameterMapping(tensor.path, held, transposed, packing)
        for (held, packing), transposed in itertools.product(ways, (not linear, linear))
    )
    head = 0 if per_head else None
    return tuple(each for each in every if each.compute_shape(sizes, head) == tensor.shape)


def add_biases(
    layout: tuple[ParameterMapping, ...], stored: Sequence[StoredTensor]
) -> tuple[ParameterMapping, ...]:
    """Add the biases that belong to the weights of a layout, by their place or their name."""
    vectors = {tensor.path: tensor for tensor in stored if not tensor.path.endswith("weight")}
    weights = {tensor.path for tensor in stored} - vectors.keys()
    complete: list[ParameterMapping] = []
    for mapping in layout:
        complete.append(mapping)
        # Other layers have no bias, and the biases of norms are parameters of parts.
        is_layer = all(name.replace("W_", "b_") in BIASES for name in mapping.holds)
        biases = list(_iter_biases(mapping, vectors, weights)) if is_layer else []
        if not biases and is_layer:  # of a fused layer, some projections may have one
            alone = (replace(mapping, holds=(h,), packing=Packing.ROWS) for h in mapping.holds)
            biases = [each for one in alone for each in _iter_biases(one, vectors, weights)]
        complete += biases
    return tuple(complete)


def _iter_biases(
    mapping: ParameterMapping, vectors: Mapping[str, StoredTensor], weights: Set[str]
) -> Iterator[ParameterMapping]:
    """Yield the bias of a layer, if it has one."""
    path = _find_bias(mapping, vectors, weights)
    if path is None or ("{head}" in path and mapping.is_output):
        return  # of biases for each head, their sum is what counts
    holds = tuple(name.replace("W_", "b_") for name in mapping.holds)
    yield replace(mapping, path=path, holds=holds, transposed=False)


def _find_bias(
    mapping: ParameterMapping, vectors: Mapping[str, StoredTensor], weights: Set[str]
) -> str | None:
    """Return the bias of a layer: the one beside its weights, or a separate one that fits."""
    beside = re.sub(r"weight$", "bias", mapping.path)
    if beside != mapping.path and beside in vectors:
        return beside
    role = tuple(name[-1] for name in mapping.holds)
    named = [
        p
        for p, t in vectors.items()
        if not t.is_matrix
        and infer_role(p) == role
        and find_claimant(p) is None
        and re.sub(r"bias$", "weight", p) not in weights  # else it is that layer's
    ]
    if len(mapping.holds) > 1 and not named:
        named = [p for p, t in vectors.items() if not t.is_matrix and LONE_BIAS.fullmatch(p)]
    return named[0] if len(named) == 1 else None
