"""The correct pipeline of a contract, and its inputs for a case."""

from collections.abc import Sequence

from torch import Tensor

from headcheck.properties.bounds.oracle import get_scale
from headcheck.properties.contracts.contract import Capability, Contract, Returns
from headcheck.properties.contracts.variant import get_variant, hides_later_tokens, list_read
from headcheck.properties.mistakes.pipeline import (
    CORRECT,
    WITHOUT_ATTENTION,
    AttentionInputs,
    Pipeline,
)
from headcheck.properties.terms.case import Case
from headcheck.reference import Parameters

WANTED = {
    Returns.OUTPUT_AND_WEIGHTS: ("output", "weights"),
    Returns.OUTPUT_AND_LOGSUMEXP: ("output", "logsumexp"),
}
"""the names of the returned results, where these are more than the output"""


def get_wanted(contract: Contract) -> tuple[str, ...]:
    """Return the names of the results that a contract asks for."""
    return WANTED.get(contract.returns, ("output",))


def get_correct_pipeline(contract: Contract) -> Pipeline:
    """Return the pipeline that computes what a contract asks for."""
    return CORRECT if contract.has(Capability.ATTENTION) else WITHOUT_ATTENTION


def make_attention_inputs(
    contract: Contract,
    case: Case,
    x: Tensor,
    parameters: Parameters,
    may_attend: Tensor | None,
    others: Sequence[Tensor] = (),
) -> AttentionInputs:
    """Return the inputs on which pipelines are evaluated for a case."""
    return AttentionInputs(
        x=x,
        parameters=parameters,
        heads=case.heads,
        may_attend=may_attend,
        scale=get_scale(contract, case),
        context_length=case.context_length,
        causal=hides_later_tokens(contract, case),
        wanted=get_wanted(contract),
        variant=get_variant(contract, case),
        window=case.window,
        block=case.block,
        others=list_read(contract, x, others),
    )
