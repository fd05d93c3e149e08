"""Judge a mask that a function of a submission makes: it hides what the function's name says."""

import functools
import re
from collections.abc import Iterator, Sequence, Set

import torch
from torch import Tensor

from headcheck.grader.grading.helper_calls import (
    OF_MASKS,
    REAL,
    TOKENS,
    HelperFinding,
    HelperQuestion,
    choose_call,
)
from headcheck.grader.reading.helpers import Helper
from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.counting import join_words
from headcheck.properties.terms.call_form import MaskConvention, MaskSource, Polarity
from headcheck.properties.terms.group import PropertyGroup

C = Capability
USUAL_PADDING = (1, 0, 2, 3)
"""the numbers that may mean padding to a function that is given none"""

CAUSAL = re.compile(r"subsequent|causal|look_?ahead|no_?pea?k|future|autoregressive|tri[lu]|triang")
PADDED = re.compile(r"pad|(src|source|enc|encoder|key|extended_attention)_mask")
BOTH = re.compile(r"(tgt|trg|target|tar|std|combined|dec|decoder)_mask")
OTHERS = re.compile(
    r"window|sliding|band|local|block|prefix|chunk|seg|doc|cross|memory|rand|mlm|loss|apply|masked"
    r"|(^|_)head|patch|plot|show|test|sparse|stride|dilat|relative|span|non_?pad|invert|expand"
    r"|enc(oder)?_dec"
)
"""names of masks that hide something else, and of functions that use masks"""
SWITCHES = re.compile(
    r"_*(\w+_)?(window|band|local|prefix|strid|dilat|diag|strict|ahead|offset|past|start|inver"
    r"|causal|future)",
    re.IGNORECASE,
)
"""the beginnings of names of options that change what is hidden, unless they are off"""
ADDED = Polarity.ADDED
LOW = -1e3
"""numbers below this one hide a key if they are added to a score"""
WORDS = {
    Polarity.KEEP: "true where a query may attend",
    Polarity.BLOCK: "true where a query may not attend",
    Polarity.ADDED: "added to the scores",
}


LATER = "The mask hides later tokens, and no others."
PADDING = "The mask hides padding from all queries, and no other token."
LATER_AND_PADDING = "The mask hides later tokens and padding, and no others."


def ask_about_masks(
    helper: Helper, contracts: Sequence[Contract], numbers: Sequence[int]
) -> Iterator[HelperQuestion]:
    """Yield questions about a function that makes masks, if its name and arguments say so.

    `numbers` may mean padding to a function that is given no such number; there is a question for
    each, and one right answer is enough.
    """
    masked = (c for c in contracts if c.has(C.MASK) or c.has(C.PADDING))
    forms = [contract.call_form.mask for contract in masked]
    polarities = [each for form in forms for each in _list_polarities(form)]
    is_on = any(p.default and SWITCHES.match(p.name) for p in helper.parameters)
    for number in dict.fromkeys((*USUAL_PADDING, *numbers)) if polarities and not is_on else ():
        call = choose_call(helper.parameters, OF_MASKS, number)
        claim = find_claim(helper.name.rpartition(".")[2], call.kinds) if call else None
        if call is None or claim is None:
            return
        is_free = "padding" not in call.kinds and "ids" in call.kinds
        judge = functools.partial(
            judge_mask,
            claim=claim,
            polarities=polarities,
            is_passed=helper.passed,
            is_free=is_free,
        )
        yield HelperQuestion(claim, PropertyGroup.MASK, call, judge)
        if not is_free:
            return


def _list_polarities(form: MaskConvention) -> list[Polarity]:
    """Return what masks a class takes; a kernel that keeps where booleans are true adds floats."""
    if form.given_as is not MaskSource.MASK:
        return []
    adds_floats = form.polarity is Polarity.KEEP and form.dtype == "bool"
    return [form.polarity, *([Polarity.ADDED] if adds_floats else [])]


def find_claim(name: str, kinds: Set[str]) -> str | None:
    """Return what a function hides by its name, and by the kinds of things that it is given.

    None if these do not say it.
    """
    plain = re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()
    later, padding, both = (bool(w.search(plain)) for w in (CAUSAL, PADDED, BOTH))
    has_tokens = bool(kinds & {"ids", "keep", "lengths"})
    if OTHERS.search(plain) or not (later or ((padding or both) and has_tokens)):
        return None
    if later and not has_tokens:
        return LATER
    return LATER_AND_PADDING if later or not padding else PADDING


def judge_mask(
    made: Sequence[Tensor],
    claim: str,
    polarities: Sequence[Polarity],
    *,
    is_passed: bool,
    is_free: bool = False,
) -> HelperFinding | None:
    """Judge a mask for classes that take masks of these polarities.

    None if it has another shape than (queries, keys), perhaps with axes for sequences and heads,
    or for keys alone; if it hides nothing, and what padding is was only guessed (`is_free`); or if
    it is right in another polarity, and is not passed to the classes unchanged. What padding sees
    does not count. It comes last, so that no token sees it if later tokens are hidden.
    """
    numbers = _lay_out(made[0]) if len(made) == 1 else None
    if numbers is None or (is_free and bool((numbers == numbers.flatten()[0]).all())):
        return None
    whole = torch.ones(*REAL.shape, TOKENS, dtype=torch.bool)
    wanted = REAL[:, None].expand_as(whole) if claim == PADDING else whole.tril()
    asked = whole if claim == LATER else REAL[..., None].expand_as(whole)
    readings = {polarity: _read(numbers, polarity) for polarity in (*polarities, *Polarity)}
    right = [each for each, seen in readings.items() if torch.equal(seen & asked, wanted & asked)]
    if {*polarities}.intersection(right):
        return HelperFinding()
    if right:
        told = HelperFinding(
            f"a mask that is {WORDS[polarities[0]]}", f"one that is {WORDS[right[-1]]}"
        )
        return told if is_passed else None
    taken = ADDED if bool((numbers < LOW).any()) else polarities[0]
    return _tell(readings[taken], wanted, asked)


def _lay_out(mask: Tensor) -> Tensor | None:
    """Return a mask with the axes (batch, queries, keys); None for other shapes."""
    batch, tokens = REAL.shape
    match tuple(mask.shape):
        case (rows, keys) if keys == tokens and rows in (batch, tokens):
            mask = mask[:, None] if rows == batch else mask[None]
        case (_, rows, keys) if keys == tokens and rows in (1, tokens):
            pass
        case (_, 1, rows, keys) if {rows, keys} <= {1, tokens}:
            mask = mask[:, 0]
        case _:
            return None
    if len(mask) not in (1, batch) or mask.is_complex():
        return None
    return mask.to(torch.float64).expand(batch, tokens, tokens)


def _read(numbers: Tensor, polarity: Polarity) -> Tensor:
    """Return who may see whom if a mask is of this polarity."""
    match polarity:
        case Polarity.KEEP:
            return numbers != 0
        case Polarity.BLOCK:
            return numbers == 0
    return numbers > LOW


def _tell(seen: Tensor, wanted: Tensor, asked: Tensor) -> HelperFinding:
    """Tell of the first token that sees others than it should."""
    sequence, query, _ = ((seen != wanted) & asked).nonzero()[0].tolist()
    right, got = (_list_seen(each[sequence, query]) for each in (wanted, seen))
    return HelperFinding(f"token {query} sees {right}", f"it sees {got}")


def _list_seen(row: Tensor) -> str:
    seen = [str(key) for key in row.nonzero().flatten().tolist()]
    return join_words(seen) if seen else "none"
