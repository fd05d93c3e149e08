"""Draft the statement and the hints, in the words of the solution's author."""

from collections.abc import Iterator

from headcheck.properties.binding.describe import QUANTITY_WORDS, describe_attention
from headcheck.properties.contracts.contract import (
    CONSTANT,
    Argument,
    Capability,
    Contract,
    NormOver,
)
from headcheck.properties.contracts.parameter_mapping import (
    BY_HEAD,
    COLUMNS,
    Packing,
    ParameterMapping,
)
from headcheck.properties.parts import PARTS, WEIGHTS
from headcheck.properties.signatures.signature import Signature
from headcheck.properties.terms.call_form import MaskConvention, MaskSource, Polarity

C = Capability
MASKS = {
    Polarity.KEEP: "`{name}` is true, or not zero, where a query may attend to a key",
    Polarity.BLOCK: "`{name}` is true, or not zero, where a query may **not** attend to a key",
    Polarity.ADDED: "`{name}` is added to the scores: zero where a query may attend to a key, and "
    "a large negative number elsewhere",
}
SOURCES = {
    MaskSource.LENGTHS: "`{name}` says how many of the first keys a sequence, or each of its "
    "queries, may attend to",
    MaskSource.DOCUMENTS: "`{name}` has the number of each token's document, and a token attends "
    "to its own document only",
    MaskSource.BOUNDARIES: "`{name}` says where documents begin, and last where the last one ends; "
    "a token attends to its own document only",
}
TURNS = "(windows, queries, keys)"
AXES = {2: "(queries, keys)", 3: "(batch, queries, keys)", 4: "(batch, heads, queries, keys)"}
ROLES = {
    "x": "the tokens",
    "query": "the tokens that queries are made of",
    "key": "the tokens that keys are made of",
    "value": "the tokens that values are made of",
    "context": "the tokens that are attended to",
    "mask": "who may attend to whom",
}
PACKINGS = {
    Packing.HEADS: "for each head its part of every projection, one head after the other",
    Packing.INTERLEAVED: "the heads interleaved",
    Packing.STACKED: "one matrix for each head",
    Packing.BETWEEN: "with an axis for heads in the middle",
    Packing.HEADWISE: "one row for each head",
    Packing.CONVOLUTION: "the weight of a convolution with a kernel of length 1",
    Packing.IMAGE_CONVOLUTION: "the weight of a convolution with a kernel of one pixel",
}
NORMED = ("gain_q", "gain_k", "shift_q", "shift_k")


def describe_title(contract: Contract) -> str:
    """Return a title that describes the contract."""
    text = describe_attention(contract)
    return text[0].upper() + text[1:]


def draft_statement(contract: Contract, signature: Signature) -> str:
    """Return a statement, in Markdown."""
    mask = _find_name("mask", contract, signature)
    parts = [
        f"# {describe_title(contract)}",
        f"Write the class `{contract.name}`: {describe_attention(contract)}.",
        _write_signature(contract, signature),
        "## What you get",
        _write_table("argument", list(_list_arguments(contract))),
        _write_table("input", list(_list_inputs(contract, signature))),
        "\n".join(_list_shapes(contract)),
        "## What you build" if contract.mappings else "",
        _write_weights(contract),
        "## The formula",
        "\n".join(_list_formula(contract)),
        "## What is demanded",
        "\n".join(f"- {line}" for line in _list_demands(contract, mask)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def draft_hints(contract: Contract, signature: Signature) -> str:
    """Return hints, a numbered list in Markdown."""
    hints = [
        "Write the shape of every tensor beside each step, first for one head, on paper.",
        "The scores of a query are its products with all keys, divided by the root of the width "
        "of one head. Over which axis must the softmax run, so that its weights sum to one?",
    ]
    if contract.has(C.HEADS):
        hints.append(
            "Cut only the last axis into heads, then exchange axes so that the heads stand like a "
            "batch. Undo both, in the opposite order, before you return."
        )
    if contract.has(C.CAUSAL):
        hints.append(
            "Hide later tokens before the softmax: what must a score be to get a weight of exactly "
            "zero? Take from the mask only as much as the sequence at hand needs."
        )
    name = _find_name("mask", contract, signature)
    if contract.has(C.MASK) or contract.has(C.PADDING):
        text = f"Print `{name}` and the scores for three tokens: do their axes mean the same?"
        hints.append(text)
    if contract.has(C.DROPOUT):
        hints.append("Dropout goes between the softmax and the product with the values.")
    return "".join(f"{number}. {text}\n" for number, text in enumerate(hints, 1))


# ------------------------------------------------------------------------------------ parts


def _write_signature(contract: Contract, signature: Signature) -> str:
    constructor, call = (
        ", ".join(["self", *(p.name + f"={p.default!r}" * p.has_default for p in parameters)])
        for parameters in (signature.constructor, signature.call)
    )
    return (
        f"```python\nclass {contract.name}(nn.Module):\n"
        f"    def __init__({constructor}): ...\n    def forward({call}): ...\n```"
    )


def _write_table(head: str, rows: list[tuple[str, str]]) -> str:
    if not rows:
        return ""
    lines = [f"| {head} | meaning |", "|---|---|", *(f"| `{a}` | {b} |" for a, b in rows)]
    return "\n".join(lines)


def _list_arguments(contract: Contract) -> Iterator[tuple[str, str]]:
    for argument in contract.arguments:
        if argument.fields:
            yield argument.name, "an object, or a dictionary, that holds what follows"
        for each in argument.fields or (argument,):
            prefix = f"{argument.name}." if argument.fields else ""
            yield f"{prefix}{each.name}", _describe_argument(each)


def _describe_argument(argument: Argument) -> str:
    if argument.quantity == CONSTANT:
        return f"always `{argument.default!r}` here"
    return QUANTITY_WORDS.get(argument.quantity, argument.quantity)


def _list_inputs(contract: Contract, signature: Signature) -> Iterator[tuple[str, str]]:
    for role in contract.call:
        yield _find_name(role, contract, signature), ROLES.get(role, role)


def _find_name(role: str, contract: Contract, signature: Signature) -> str:
    """Return the author's name of an input."""
    names = [parameter.name for parameter in signature.call]
    at = contract.call.index(role) if role in contract.call else len(names)
    return names[at] if at < len(names) else role


def _list_shapes(contract: Contract) -> Iterator[str]:
    axes = [a for a in contract.call_form.axes.split() if a != "batch" or contract.has(C.BATCH)]
    inner = "d_out" if not contract.square else "width"
    outer = "width" if contract.square else "d_in"
    yield "```"
    yield f"tokens    ({', '.join(axes).replace('width', outer)})"
    yield f"output    ({', '.join(axes).replace('width', inner)})"
    if contract.has(C.WEIGHTS):
        heads = ["heads"] * (contract.has(C.HEADS) and not contract.call_form.one_head)
        batch = ["batch"] * contract.has(C.BATCH)
        yield f"weights   ({', '.join([*batch, *heads, 'tokens', 'tokens'])})"
    yield "```"
    yield from _describe_results(contract)
    sizes = [f"`{name}` is {size}" for name, size in (contract.sizes or {}).items()]
    if sizes:
        yield f"\nThese sizes are fixed: {', '.join(sizes)}."
    if contract.size_rules is not None:
        yield f"\nSizes keep these rules: `{contract.size_rules}`."


def _describe_results(contract: Contract) -> Iterator[str]:
    places = contract.call_form.places
    if contract.has(C.WEIGHTS):
        first = places is not None and places[0] > places[1]
        pair = "the weights, then the output" if first else "the output, then the weights"
        yield f"\n`forward` returns {pair}."
    elif places is not None:
        yield f"\n`forward` returns several things; the output is number {places[0] + 1}."


def _write_weights(contract: Contract) -> str:
    if not contract.mappings:
        return ""
    rows = ["These weights, by these names, and no other parameters:", ""]
    rows += ["| weight | shape | holds |", "|---|---|---|"]
    rows += [
        f"| `{m.path}` | {_write_shape(m, contract)} | {_describe(m)} |" for m in contract.mappings
    ]
    return "\n".join(rows)


def _write_shape(mapping: ParameterMapping, contract: Contract) -> str:
    d_in, d_out = ("width", "width") if contract.square else ("d_in", "d_out")
    per_head = "{head}" in mapping.path
    weight = WEIGHTS[mapping.holds[0]]
    if weight.write_shape is not None:
        return f"`({weight.write_shape(contract)})`"
    if weight.is_per_head:
        broad = mapping.packing is Packing.BROADCAST
        ones = ", 1" * (2 if broad else mapping.packing.kernel_axes)
        return f"`({'1, ' * broad}heads{ones or ','})`"
    heads = "kv_heads" if contract.has(C.GROUPED) and mapping.is_shared else "heads"
    if mapping.packing in COLUMNS:
        return f"`({'1, ' * (mapping.packing is Packing.ONE_COLUMN)}{heads}, 1, head_dim)`"
    if mapping.holds[0] in NORMED and mapping.packing in BY_HEAD:
        return f"`({heads}, head_dim)`"
    if mapping.holds[0] in NORMED:
        whole = contract.norm_over is NormOver.PROJECTION
        return f"`({_count_rows(mapping, contract, d_out) if whole else 'head_dim'},)`"
    own = "head_dim" if per_head else d_out
    rows = _count_rows(mapping, contract, own)
    columns = own if mapping.is_output else d_in
    rows = d_out if mapping.is_output else rows
    if mapping.packing is Packing.BETWEEN and not _is_vector(mapping):
        inner = ["head_dim", heads, d_out] if mapping.is_output else [d_in, heads, "head_dim"]
        return f"`({', '.join(inner if mapping.transposed else inner[::-1])})`"
    if mapping.packing in BY_HEAD and not (mapping.is_output and _is_vector(mapping)):
        inner = ["head_dim", d_out if mapping.is_output else d_in]
        inner = inner[::-1] if mapping.transposed != mapping.is_output else inner
        return f"`({heads}, {'head_dim' if _is_vector(mapping) else ', '.join(inner)})`"
    if _is_vector(mapping):
        return f"`({rows},)`"
    pair = [columns, rows] if mapping.transposed else [rows, columns]
    return f"`({', '.join(pair + ['1'] * mapping.packing.kernel_axes)})`"


def _count_rows(mapping: ParameterMapping, contract: Contract, own: str) -> str:
    """Return how many rows a tensor has; keys and values have fewer if heads share them."""
    if mapping.packing is Packing.HEADWISE:
        return "heads"
    shared = sum(name[-1] in "kv" for name in mapping.holds) if contract.has(C.GROUPED) else 0
    parts = [(len(mapping.holds) - shared, own), (shared, "kv_heads · head_dim")]
    said = [f"{count} · {size}" if count > 1 else size for count, size in parts if count]
    return " + ".join(said)


def _is_vector(mapping: ParameterMapping) -> bool:
    return mapping.holds[0].startswith("b_")


def _describe(mapping: ParameterMapping) -> str:
    kind = "bias of " if _is_vector(mapping) else ""
    held = [WEIGHTS[name.replace("b_", "W_")].words for name in mapping.holds]
    text = kind + ", then ".join(held)
    packing = "" if WEIGHTS[mapping.holds[0]].is_per_head else PACKINGS.get(mapping.packing, "")
    return f"{text}: {packing}" if packing and len(held) + mapping.is_output else text


def _list_formula(contract: Contract) -> Iterator[str]:
    hidden = contract.has(C.CAUSAL) or contract.has(C.MASK) or contract.has(C.PADDING)
    scale = "" if contract.scale == 1 else " / √head_dim"
    scores = f"Q_h K_hᵀ{scale}" + ", what is hidden masked" * hidden
    weights = f"softmax({scores}{', s_h' * contract.has(C.SINKS)})"
    weights = f"dropout({weights})" if contract.has(C.DROPOUT) else weights
    shared = " (of K and V those of its group: neighbouring heads share)"
    own = "For each head `h`, of the queries Q, the keys K and the values V its own columns"
    yield f"{own}{shared * contract.has(C.GROUPED)}:\n"
    yield "```"
    yield f"context_h = {weights} V_h"
    merged = "[context_0, context_1, …]" + " · sigmoid(x W_gateᵀ)" * contract.has(C.GATED)
    merged = f"({merged})" if contract.has(C.GATED, C.OUTPUT_PROJECTION) else merged
    if not contract.has(C.OUTPUT_PROJECTION):
        yield f"output    = {merged}"
    else:
        yield f"output    = {merged} W_oᵀ{' + b_o' * contract.has(C.OUTPUT_BIAS)}"
    yield "```\n"
    sinks = " and the head's sink `s_h`, which has no value" * contract.has(C.SINKS)
    yield f"The softmax runs over the keys{sinks}."
    for part in PARTS:
        if part.is_in(contract):
            yield from part.list_sentences(contract)


def _list_demands(contract: Contract, name: str) -> Iterator[str]:
    if contract.has(C.CAUSAL):
        yield "Token `i` attends to the tokens `0 … i` only."
        if contract.has(C.WINDOW):
            yield "Of these it sees the last so many as the window is long, itself included."
    elif contract.has(C.FULL):
        yield "Every token attends to every token, unless a mask hides it."
    if contract.has(C.MASK) or contract.has(C.PADDING):
        yield from _list_mask_demands(contract.call_form.mask, name)
    if contract.has(C.CROSS):
        yield "Keys and values may come from other tokens than queries, and be more or fewer."
    if contract.has(C.CONTEXT):
        yield "Every number of tokens up to the longest works; one module is called with many."
    if contract.has(C.DROPOUT):
        yield "Dropout falls on the weights, each by itself, in training only."
    if contract.has(C.UNIFORM):
        yield "The weights start from `torch.rand`."
    yield "The output has the dtype of the input. The input is not changed."
    yield "Nothing is remembered from one call to the next; whatever it needs moves with `.to(…)`."


def _list_mask_demands(mask: MaskConvention, name: str) -> Iterator[str]:
    said = SOURCES.get(mask.given_as) or MASKS[mask.polarity]
    yield f"{said.format(name=name)}."
    if mask.keys_only:
        yield "It is the same for every query: it says which keys there are."
    elif mask.axes is not None:
        yield f"It has the shape `{TURNS if mask.in_turn else AXES[mask.axes]}`."
    if mask.in_turn:
        yield "The windows of several images, which are the sequences, take its masks in turn."
    if mask.required:
        yield "It is always given."
