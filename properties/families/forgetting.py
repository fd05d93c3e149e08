"""A cache for attention within a window may forget tokens that no later token sees.

The window of the next token has w tokens, w - 1 of them earlier, so a cache needs only these (Jiang
et al. 2023, "Mistral 7B", section 2, rolling buffer cache). This is checked only if a contract
promises forgetting. Right outputs show that the needed tokens are kept.
"""

from dataclasses import replace

from headcheck.properties.cases.case_transforms import at_least, compose
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.families.contract import FORM
from headcheck.properties.families.decoding import several_tokens_at_a_time_give_the_same_output
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.harness.steps import build_fresh_module
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.subject import Chunk
from headcheck.properties.terms.case import Case, MaskForm
from headcheck.properties.violations.violation import Violation, ViolationKind

family_property = PropertyFamily(PropertyGroup.CACHE, FORM)
TOKENS = 60
"""a number of tokens far larger than twice a short window"""
LONGEST_WINDOW = 7
MOST = 2
"""how many times the window's tokens a cache may hold, since buffers have fixed sizes"""


def _lengthen(case: Case) -> Case | None:
    """Return a case of many tokens and a short window."""
    window = min(case.window or LONGEST_WINDOW, LONGEST_WINDOW)
    longest = max(case.context_length, TOKENS)
    sizes = {"tokens": TOKENS, "context_length": longest, "window": window}
    return replace(case, mask_form=MaskForm.NONE, **sizes)  # type: ignore[arg-type]  # sizes


@family_property(
    C.FORGETFUL,
    C.HANDED_CACHE,
    C.WINDOW,
    on=compose(at_least(heads=2), _lengthen),
    after=(several_tokens_at_a_time_give_the_same_output,),
    limit=2,
    dtypes=("float64",),
    hint="which of the kept tokens will a later token still see?",
)
def a_cache_holds_no_more_than_its_window(context: LiveContext) -> None:
    """After many tokens a cache holds at most twice as many tokens as the window."""
    case, x = context.case, context.x
    parts = x[:, :-2], x[:, -2:-1], x[:, -1:]
    chunks = [Chunk(part, number - 1 if number else None) for number, part in enumerate(parts)]
    kept = build_fresh_module(context).decode(chunks, counted=True)[-1].kept
    token = 2 * case.batch * case.kv_heads * case.head_dim
    if kept > (allowed := MOST * case.window * token):
        what = f"the cache after {TOKENS} tokens, with a window of {case.window}"
        expected = f"at most {allowed} numbers, those of {MOST * case.window} tokens"
        raise Violation(ViolationKind.VALUE, expected, f"{kept}", what)
