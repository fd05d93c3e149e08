"""Guess what a class is meant to compute, if that differs from what it computes."""

import re
from collections.abc import Iterator, Mapping

from jaxtyping import Float
from torch import Tensor

from headcheck.properties.binding.calls import find_mask_name
from headcheck.properties.signatures.signature import SENTENCE, Signature
from headcheck.properties.subject import Module, TensorInfo
from headcheck.properties.terms.call_form import Polarity

CAUSAL_NAME = re.compile(r"causal|autoregressive|gpt|language_?model", re.IGNORECASE)
CAUSAL_OPTION = re.compile(r"(is_|use_)?causal(_mask)?", re.IGNORECASE)
CAUSAL_WORD = re.compile(r"\b(causal|autoregressive)\b", re.IGNORECASE)
CONDITION = re.compile(
    r"\b(non|not|no|without|if|when|unless|optional(ly)?|either|or|can|may|bidirectional)\b",
    re.IGNORECASE,
)
"""words with which a sentence does not say what every call does"""
ENTRIES = "true|1s?|ones|non-?zero", "false|0s?|zeros?"
ENTRY = re.compile(rf"(?i:\b({'|'.join(ENTRIES)})\b)")
TRUE, FALSE = (re.compile(rf"\b({word})\b([^,.;\n]{{0,40}})", re.IGNORECASE) for word in ENTRIES)
HIDES = re.compile(
    r"\b(not|n't|ignored?|hidden|hides?|block(s|ed)?|masked|excluded?|pad(ded|ding)?|future)\b",
    re.IGNORECASE,
)
SHOWS = re.compile(r"\b(keep|kept|allow(s|ed)?|attend(s|ed)?|visible|valid|real)\b", re.IGNORECASE)
NAMED = (
    (Polarity.KEEP, re.compile(r"(.*_)?(keep|valid|allowed|visible)(_mask)?")),
    (Polarity.BLOCK, re.compile(r"(.*_)?(block(ed)?|hidden|ignored?|excluded?|forbidden)(_mask)?")),
)
"""what the name of a mask says of its true entries"""
SHARED_DROPOUT = re.compile(
    r"(dropout|dropped).*\b(shared|broadcast)\b|\b(shared|broadcast)\b.*(dropout|dropped)",
    re.IGNORECASE | re.DOTALL,
)
"""words that say that dropout is drawn for several sequences or heads at once"""
OTHER_MASK = re.compile(r"\b\w+_mask\b")
"""the name of an argument, if it is not the one that is asked about"""


def expects_causality(
    signature: Signature, module: Module, tensors: Mapping[str, TensorInfo]
) -> bool:
    """Whether a class is meant to hide later tokens: its name says so, or it stores a triangle."""
    if signature.causal is not None:
        return signature.causal
    if any(p.name == find_mask_name(signature.call) and not p.has_default for p in signature.call):
        return False  # who calls it says what is hidden
    if CAUSAL_NAME.search(signature.name) or quote_causality(signature):
        return True
    if find_mask_name(signature.call) is not None:
        return False
    square = [
        path
        for path, info in tensors.items()
        if info.kind == "buffer" and len(info.shape) > 1 and info.shape[-1] == info.shape[-2] > 1
    ]
    found = module.read(square).values() if square else ()
    return any(is_triangle(tensor.squeeze()) for tensor in found if tensor.squeeze().dim() == 2)


def quote_causality(signature: Signature) -> str:
    """Return the words of a class that say that later tokens are hidden; "" if none do."""
    if find_mask_name(signature.call) is not None:
        return ""
    options = [p for p in signature.call if CAUSAL_OPTION.fullmatch(p.name)]
    if options:
        return f"{options[0].name}=True" if options[0].default is True else ""
    sentences = (found.group().strip() for found in SENTENCE.finditer(signature.doc))
    said = (each for each in sentences if CAUSAL_WORD.search(each) and not CONDITION.search(each))
    return next(said, "")


def find_causal_option(signature: Signature) -> str | None:
    """Return the argument of `forward` that hides later tokens in the calls that ask for it."""
    if find_mask_name(signature.call) is not None:
        return None
    options = (p for p in signature.call if CAUSAL_OPTION.fullmatch(p.name))
    return next((p.name for p in options if p.default is False), None)


def quote_shared_dropout(signature: Signature) -> str:
    """Return the words that say that sequences or heads drop the same weights; "" if none do."""
    sentences = (found.group().strip() for found in SENTENCE.finditer(signature.doc))
    return next((each for each in sentences if SHARED_DROPOUT.search(each)), "")


def find_stated_polarity(signature: Signature, name: str) -> tuple[Polarity, str] | None:
    """Return what true entries of a mask mean, and the words that say so; None if nothing does."""
    for polarity, words in NAMED:
        if words.fullmatch(name.lower()):
            return polarity, name
    found, near = {}, False
    for sentence in SENTENCE.findall(signature.doc):
        named = "mask" in sentence.lower() or name in sentence
        if name not in sentence and OTHER_MASK.search(sentence):
            continue
        if named or near:
            for polarity in _read_polarities(sentence):
                found[polarity] = sentence.strip()
        near = named  # what follows a name explains it
    return next(iter(found.items())) if len(found) == 1 else None


def _read_polarities(sentence: str) -> Iterator[Polarity]:
    """Yield what true entries mean by a sentence, which may also speak of false ones."""
    for word, shown, hidden in (
        (TRUE, Polarity.KEEP, Polarity.BLOCK),
        (FALSE, Polarity.BLOCK, Polarity.KEEP),
    ):
        for entry in word.finditer(sentence):
            said = re.split(ENTRY, entry.group(2), maxsplit=1)[0]
            if HIDES.search(said):
                yield hidden
            elif SHOWS.search(said):
                yield shown


def is_triangle(table: Float[Tensor, "n n"]) -> bool:
    """Whether all entries above the diagonal are one number, and other numbers are below it."""
    numbers = table.float().nan_to_num(neginf=-1.0)
    marked = numbers != numbers[0, -1]
    return bool(marked.tril().equal(marked) and marked.any())
