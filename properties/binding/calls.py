"""Ways to call a module for self-attention: the role of each input."""

import itertools
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from headcheck.properties.contracts.contract import Entry
from headcheck.properties.signatures.signature import SENTENCE, Signature, SignatureParameter
from headcheck.properties.signatures.vocabulary import (
    guess_role,
    guess_roles,
    guess_taken,
    list_given,
)
from headcheck.properties.terms.call_form import (
    CallForm,
    Given,
    MaskConvention,
    MaskSource,
    Polarity,
    Taken,
    TokenAxes,
)

MASK_CONVENTIONS = (
    MaskConvention(),
    MaskConvention(dtype="bool"),
    MaskConvention(polarity=Polarity.BLOCK, dtype="bool"),
    MaskConvention(polarity=Polarity.ADDED),
    MaskConvention(polarity=Polarity.ADDED, fill=-1e9),
    MaskConvention(polarity=Polarity.BLOCK, dtype="float64"),
    MaskConvention(polarity=Polarity.KEEP, dtype="float64"),
    MaskConvention(polarity=Polarity.KEEP, dtype="int64"),
)
"""The conventions of masks to try, the most permissive first"""
LENGTHS = MaskConvention(given_as=MaskSource.LENGTHS)
SOURCES = (
    (r".*len(gth)?s?", (LENGTHS, replace(LENGTHS, keys_only=True), replace(LENGTHS, axes=3))),
    (r".*(doc|seg).*", (MaskConvention(given_as=MaskSource.DOCUMENTS),)),
    (r".*(cu_?seq|bound|offset).*", (MaskConvention(given_as=MaskSource.BOUNDARIES),)),
)
"""what an argument may take in place of a mask, by its name"""
REQUIRED_MASKS = ((4, False), (3, False), (2, False), (2, True))
"""forms of required masks: the number of axes, and whether the mask covers only keys"""
QKV = ("query", "key", "value")
AXES = (None, 4, 3, 2)
"""the numbers of axes of a mask to try; None means any number that broadcasts"""


HEAD_MASK = re.compile(r"(layer_)?heads?_mask")
"""names of masks of heads"""
COMMON_WORDS = {
    "attention", "attn", "key", "keys", "padding", "hidden", "states", "mask", "use", "return"
}  # fmt: skip
"""words in the names of masks and inputs that do not say to what they belong"""
FRAMED = re.compile(r"expected 4[ ,]", re.IGNORECASE)
"""in an error of a class whose tokens have an axis for frames"""


def iter_axes(
    forms: Sequence[CallForm],
    shapes: Collection[tuple[int, ...]],
    failures: Sequence[str],
    *,
    windowed: bool = False,
) -> Iterator[CallForm]:
    """Yield the forms of a call with the axes that the shapes of weights and failures allow.

    A module with convolutions may take the width first, and one that is `windowed` may take images,
    each of which is a window here. Failures are those of earlier calls, to which the forms that
    were yielded before have added.
    """
    yield from forms
    for axes, kernel in ((TokenAxes.WIDTH_FIRST, (1,)), (TokenAxes.IMAGE, (1, 1))):
        if any(shape[2:] == kernel for shape in shapes):
            yield from (replace(form, axes=axes) for form in forms)
    if windowed and any(map(FRAMED.search, failures)):
        yield from (replace(form, axes=TokenAxes.WINDOW) for form in forms)
    if any(map(FRAMED.search, failures)):
        beside = [form for form in forms if "context" in form.inputs]
        yield from (replace(form, axes=TokenAxes.IMAGE_BESIDE_CONTEXT) for form in beside)
        yield from (replace(form, axes=TokenAxes.FRAMES) for form in forms)


def iter_forms_of(signature: Signature) -> Iterator[CallForm]:
    """Yield the call forms of a class or function, the likely ones first."""
    for form in iter_call_forms(signature.call, signature.given):
        yield replace(
            form,
            reset=signature.reset or None,
            forgets=signature.forgets or None,
            bypassed=signature.bypassed,
            silenced=signature.silenced,
            adds_tokens=signature.adds_tokens,
        )


def guess_all_taken(parameters: Sequence[SignatureParameter]) -> dict[str, Taken] | None:
    """Return what the maker of a cache is given, by name; None if names do not say it."""
    guesses = {p.name: guess_taken(p.name) for p in parameters}
    required = {p.name for p in parameters if not p.has_default}
    if any(guesses[name] is None for name in required):
        return None
    return {name: taken for name, taken in guesses.items() if taken is not None}


def iter_call_forms(
    parameters: Sequence[SignatureParameter], given: Sequence[SignatureParameter] = ()
) -> Iterator[CallForm]:
    """Yield the call forms that the signature of `forward` allows, the likely ones first.

    The arguments in `given` are neither tokens nor a mask; they get what their names suggest.
    """
    apart = next((p.name for p in parameters[1:] if p.by_name and not p.has_default), None)
    for form in _iter_plain_forms(parameters):
        for kinds in _iter_given(given):
            by_name = kinds or any(p.by_name for p in parameters)
            named = find_mask_name(parameters) if by_name else None
            every = {**(form.given or {}), **(kinds or {})} or None
            own = replace(form, given=every, mask=replace(form.mask, argument=named))
            context = apart if "context" in form.inputs and apart != named else None
            yield replace(own, context_argument=context)


def _iter_given(given: Sequence[SignatureParameter]) -> Iterator[dict[str, Given] | None]:
    """Yield what these arguments may be given; cosines and sines are laid out alike."""
    offered = [list_given(parameter.name) for parameter in given]
    for number in range(max(map(len, offered), default=1)):
        chosen = (kinds[min(number, len(kinds) - 1)] for kinds in offered)
        yield dict(zip([p.name for p in given], chosen, strict=True)) or None


def set_given_aside(signature: Signature) -> Signature:
    """Return the signature with required arguments that are neither tokens nor a mask apart.

    All of them stand behind the tokens, so they can be passed by name.
    """
    given = [p for p in signature.call if not p.has_default and list_given(p.name)]
    inputs = [p for p in signature.call if p not in given]
    required = [p for p in inputs if not p.has_default]
    tokens = [p for number, p in enumerate(required) if not number or guess_role(p.name) != "mask"]
    leading = signature.call[: len(tokens)] == tuple(tokens)
    if not given or not tokens or not leading or signature.entry is Entry.FUNCTION:
        return signature
    return replace(signature, call=tuple(inputs), given=tuple(given))


def _iter_plain_forms(parameters: Sequence[SignatureParameter]) -> Iterator[CallForm]:
    for inputs in dict.fromkeys(_iter_inputs(parameters)):
        yield CallForm(inputs)
        if "mask" in inputs and not _has_default(parameters, inputs.index("mask")):
            for source in list_mask_sources(find_mask_name(parameters) or ""):
                yield CallForm(inputs, mask=replace(source, required=True))
            for (axes, keys_only), number in itertools.product(REQUIRED_MASKS, (1, 2, 3)):
                own = MASK_CONVENTIONS[number]
                required = replace(own, axes=axes, keys_only=keys_only, required=True)
                yield CallForm(inputs, mask=required)
            plain = tuple(role for role in inputs if role != "mask")
            name = parameters[inputs.index("mask")].name
            yield CallForm(plain, given={name: Given.NONE})


def names_roles(parameters: Sequence[SignatureParameter]) -> bool:
    """Whether the names of the inputs say which input is the queries, the keys or the values."""
    return sorted({*guess_roles(parameters)} - {"mask"}) == sorted(QKV)


def hides_its_mask(form: CallForm, parameters: Sequence[SignatureParameter]) -> bool:
    """Whether a call is given None for a mask that it requires."""
    return not {*(form.given or {})}.isdisjoint(list_mask_names(parameters))


def find_mask_name(parameters: Sequence[SignatureParameter]) -> str | None:
    """Return the name of the first parameter that takes a mask of keys, if any."""
    names = list_mask_names(parameters)
    return next((name for name in names if not HEAD_MASK.fullmatch(name.lower())), None)


def list_mask_names(parameters: Sequence[SignatureParameter]) -> list[str]:
    """Return the names of the parameters that take masks."""
    roles = zip(parameters, guess_roles(parameters), strict=True)
    return [p.name for p, role in roles if role == "mask"]


def list_masks_of_others(parameters: Sequence[SignatureParameter]) -> list[str]:
    """Return the names of masks that are of an optional input: the two share a word."""
    masks = list_mask_names(parameters)
    given = (p for p in parameters if p.has_default and p.default is None)
    optional = [p.name for p in given if p.name not in masks]
    words = {word for name in optional for word in _list_words(name)}
    return [name for name in masks if words & {*_list_words(name)}]


def _list_words(name: str) -> list[str]:
    """Return the words of a name that say whose input or mask it is."""
    return [word for word in name.lower().split("_") if word and word not in COMMON_WORDS]


def keep_one_mask(signature: Signature, name: str) -> Signature:
    """Return the signature without its other masks; the one that is left is passed by name.

    What is said of the other masks is left out, too.
    """
    others = {mask for mask in list_mask_names(signature.call) if mask != name}
    kept = (p for p in signature.call if p.name not in others)
    call = tuple(replace(p, by_name=True) if p.name == name else p for p in kept)
    said = (s for s in SENTENCE.findall(signature.doc) if not any(each in s for each in others))
    return replace(signature, call=call, doc=". ".join(said))


def list_mask_sources(name: str) -> Sequence[MaskConvention]:
    """Return what an argument of this name may take in place of a mask, the likeliest first."""
    named = (each for pattern, each in SOURCES if re.fullmatch(pattern, name, re.IGNORECASE))
    return next(named, ())


def _has_default(parameters: Sequence[SignatureParameter], number: int) -> bool:
    return parameters[number].has_default


def _iter_inputs(parameters: Sequence[SignatureParameter]) -> Iterator[tuple[str, ...]]:
    """Yield roles for the inputs, in order, up to the mask if a positional call can reach one."""
    required = [p for p in parameters if not p.has_default]
    guesses = guess_roles(parameters)
    last = guesses.index("mask") + 1 if "mask" in guesses else 0
    for count in dict.fromkeys((max(len(required), last), len(required))):
        reached = guesses[:count]
        tokens = [number for number, role in enumerate(reached) if role != "mask"]
        roles = _guess_token_roles([guesses[number] for number in tokens])
        for number, role in zip(tokens, roles, strict=True):
            reached[number] = role
        yield tuple(reached)


def _guess_token_roles(guesses: Sequence[str]) -> Sequence[str]:
    """Return roles for the inputs that are tokens, all different.

    In self-attention their order does not matter; it is found out later.
    """
    match len(guesses):
        case 2:
            return "query", "context"
        case 3:
            return guesses if sorted(guesses) == ["key", "query", "value"] else QKV
    return ["x"] * len(guesses)


def iter_role_orders(inputs: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the inputs of a call with its tokens in every order of roles, the given one first."""
    tokens = [role for role in inputs if role != "mask"]
    for order in itertools.permutations(tokens):
        remaining = iter(order)
        yield tuple(role if role == "mask" else next(remaining) for role in inputs)
