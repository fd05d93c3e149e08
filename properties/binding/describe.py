"""Describe in words the attention of a contract, and the assumptions behind it."""

from collections.abc import Iterator

from headcheck.properties.binding.calls import list_mask_names
from headcheck.properties.contracts.contract import CONSTANT, MADE, Argument, Capability, Contract
from headcheck.properties.counting import join_words
from headcheck.properties.parts import PARTS, QUANTITIES
from headcheck.properties.parts.norms import NORMS
from headcheck.properties.parts.part import takes
from headcheck.properties.parts.positions import ALIBI, ROTATIONS
from headcheck.properties.parts.relative import RELATIVE
from headcheck.properties.parts.scores import WINDOW
from headcheck.properties.signatures.signature import Signature
from headcheck.properties.signatures.vocabulary import guess_quantity
from headcheck.properties.terms.call_form import (
    CacheConvention,
    CallForm,
    Given,
    MaskSource,
    Polarity,
    TokenAxes,
)

C = Capability
FIRST = (NORMS, ROTATIONS, ALIBI, RELATIVE, WINDOW)
SPOKEN = (*FIRST, *(part for part in PARTS if part not in FIRST))
"""the parts in the order in which a description names them"""
QUANTITY_WORDS = {
    "d_in": "the width of a token",
    "d_out": "the width of all heads together",
    "heads": "the number of heads",
    "head_dim": "the width of one head",
    "context_length": "the longest length",
    "side": "the side of a window",
    "sides": "the height and the width of a window",
    "tokens": "the number of tokens",
    "dropout": "the rate of dropout",
    "temperature": "the root of a head's width",
    "scale": "one over the root of a head's width",
    "bias": "whether queries, keys and values have a bias",
    **{each.taken: each.words for each in QUANTITIES.values() if each.words},
}
SOURCE_WORDS = {
    MaskSource.LENGTHS: "how many of the first keys may be attended to",
    MaskSource.DOCUMENTS: "the number of each token's document",
    MaskSource.BOUNDARIES: "where documents begin and end",
}
GIVEN_WORDS = {
    Given.NONE: "None",
    Given.ZERO: "0",
    Given.FALSE: "False",
    Given.TRUE: "True",
    Given.POSITIONS: "the positions of all tokens",
    Given.POSITION_ROW: "the positions of one sequence",
}
POLARITY_WORDS = {
    Polarity.KEEP: "true where a query may attend",
    Polarity.BLOCK: "true where a query may not attend",
    Polarity.ADDED: "added to the scores",
}


def describe_attention(contract: Contract) -> str:
    """Return a description: "causal multi-head self-attention with an output layer"."""
    inputs = contract.call_form.inputs
    kind = "causal " if contract.has(C.CAUSAL) else ""
    if contract.has(C.HEADS):
        fixed = (contract.sizes or {}).get("heads")
        kind += "multi-head " if fixed is None else f"{fixed}-head "
    if "context" in inputs:
        kind += "cross-attention"
    elif "key" in inputs:
        kind += "attention of queries, keys and values"
    else:
        kind += "self-attention"
    parts = [
        *(part.describe(contract) for part in SPOKEN if part.is_in(contract)),
        "an output layer" * contract.has(C.OUTPUT_PROJECTION),
        "a mask" * (contract.has(C.MASK) or contract.has(C.PADDING)),
        "its weights returned" * contract.has(C.WEIGHTS),
    ]
    said = [part for part in parts if part]
    return f"{kind} with {join_words(said)}" if said else kind


def list_assumptions(signature: Signature, contract: Contract) -> Iterator[str]:
    """Yield the assumptions about a class, each as a sentence."""
    known = ", ".join(_describe_argument(argument) for argument in _list_arguments(contract))
    if known:
        yield f"`{signature.name}` takes {known}"
    for made in (a for a in contract.arguments if a.quantity == MADE):
        taken = ", ".join(map(_describe_argument, made.fields))
        which = f", which takes {taken}" if taken else ""
        yield f"its `{made.name}` is made by `{made.default}`{which}"
    counts = [a.name for a in _list_arguments(contract) if a.quantity == "heads"]
    if any(guess_quantity(name) == "kv_heads" for name in counts):
        yield "judged with as many heads of keys as of queries: neighbouring heads do not share"
    idle = [f"`{name}`" for name in _list_idle(signature, contract)]
    if idle:
        keep, are = (
            ("keeps its default", "is") if len(idle) == 1 else ("keep their defaults", "are")
        )
        yield f"{join_words(idle)} of its calls {keep}, and {are} not judged"
    given = (contract.call_form.given or {}).items()
    if given:
        listed = join_words([f"`{n}`, {GIVEN_WORDS.get(g, f'rotary {g}')}" for n, g in given])
        yield f"every call of it is given {listed}"
    yield from _list_preparations(contract.call_form)
    axes = contract.call_form.axes
    if axes is not TokenAxes.BATCH_FIRST:
        tokens = [role for role in contract.call_form.inputs if role != "mask"]
        they = "its inputs have" if len(tokens) > 1 else "its input has"
        usual = ", ".join(TokenAxes.BATCH_FIRST.split())
        meant = f": if ({usual}) is meant, this attends over the batch"
        question = meant if axes is TokenAxes.TOKENS_FIRST else ""
        yield f"{they} the shape ({', '.join(axes.split())}){question}"
    if not contract.has(C.BATCH):
        yield "its input has the shape (tokens, width), without a batch"
    if contract.has(C.MASK) or contract.has(C.PADDING):
        yield from _describe_masks(signature, contract)


def _describe_masks(signature: Signature, contract: Contract) -> Iterator[str]:
    """Yield what the mask of a class means, and what its other masks are given."""
    mask = contract.call_form.mask
    meaning = SOURCE_WORDS.get(mask.given_as) or POLARITY_WORDS[mask.polarity]
    masks = list_mask_names(signature.call)
    named = f"`{mask.argument or masks[0]}`" if len(masks) > 1 else "mask"
    turns = "; windows of several images take its masks in turn" * mask.in_turn
    yield f"its {named} is {meaning}{turns}"
    if contract.call_form.beside is not None:
        other = contract.call_form.beside.argument
        yield f"every call of it is given a `{other}`, too, which hides nothing"


def _list_preparations(form: CallForm) -> Iterator[str]:
    """Yield what is done to a module before each call of it, and after."""
    left_out, cleared = ([f"`{path}`" for path in paths] for paths in (form.bypassed, form.cleared))
    if form.cache is not None:
        yield _describe_cache(form.cache)
    if left_out:
        yield f"judged without its {join_words(left_out)}, which every call leaves out"
    if form.silenced:
        layers = dict.fromkeys(path.rpartition(".")[0] or path for path in form.silenced)
        names = join_words([f"`{layer}`" for layer in layers])
        yield f"judged without its feed-forward: the weights of {names} are zero"
    if form.adds_tokens:
        yield "the tokens that it adds to its output are taken off before it is judged"
    if form.joins_queries:
        yield "its keys and values come from the context and from the tokens of its queries"
    if form.reset is not None and not (form.cache and form.cache.is_kept):
        yield f"its `{form.reset}()` is called before every call of it"
    if form.forgets is not None:
        yield f"its `{form.forgets}` is reset to None before every call, as the calling code does"
    if cleared:
        are = "is" if len(cleared) == 1 else "are"
        yield f"its {join_words(cleared)} {are} cleared before every call"


def _describe_cache(cache: CacheConvention) -> str:
    name, maker = cache.argument, cache.made_by
    if cache.is_kept:
        asked = f"with `{name}=True` a call continues" if name else "calls of it continue"
        taken = ", ".join(cache.reset_takes or ())
        if taken:
            return f"{asked} the earlier ones, from `{cache.reset}({taken})` on"
        ends = f"until `{cache.reset}()` is called" if cache.reset else "until it is cleared"
        return f"{asked} the earlier ones, {ends}"
    if maker == "tuple":
        return f"its `{name}` takes `()`, or what an earlier call returned"
    if maker is not None:
        made = f"{maker}({', '.join(cache.reset_takes)})" if cache.reset_takes else maker
        return f"its `{name}` is made by `{made}`, and calls write into it"
    return f"its `{name}` takes what an earlier call returned, and continues it"


def _list_idle(signature: Signature, contract: Contract) -> Iterator[str]:
    """Yield the arguments of a call that keep their defaults, but not a mask told of elsewhere."""
    form, masks = contract.call_form, list_mask_names(signature.call)
    tokens = [p.name for p in signature.call if p.name not in masks]
    used = {*tokens[: sum(role != "mask" for role in form.inputs)], *(form.given or ())}
    used |= {*(form.without_weights or ()), *([form.cache.argument] if form.cache else ())}
    used |= {form.mask.argument or masks[0]} if masks else set()
    yield from (p.name for p in signature.call if p.has_default and p.name not in used)


def describe_intent(contract: Contract) -> str:
    """Describe the assumed intent, which behaviour does not show."""
    if contract.has(C.CAUSAL):
        return "it is judged as causal: no token should see later ones"
    if "context" in contract.call_form.inputs:
        return "every token sees all tokens of the other sequence"
    if takes("side", "sides")(contract):
        return "every place of a window sees every other"
    if contract.call_form.axes is TokenAxes.IMAGE:
        return "every place of an image sees every other"
    return "every token sees every other: if it should be causal, this is a mistake"


def _list_arguments(contract: Contract) -> Iterator[Argument]:
    for argument in (*contract.arguments, *contract.variables):
        if argument.quantity != MADE:
            yield from argument.fields or (argument,)


def _describe_argument(argument: Argument) -> str:
    if argument.quantity == CONSTANT:
        return f"`{argument.name}`, always {argument.default!r} here"
    return f"`{argument.name}`, {QUANTITY_WORDS.get(argument.quantity, argument.quantity)}"
