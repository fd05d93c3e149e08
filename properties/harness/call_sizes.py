"""The sizes of one call of a submission, in the words of its exercise."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from torch import Tensor

from headcheck.properties.contracts.case_description import describe_case, list_own_names
from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.counting import count
from headcheck.properties.parts import PARTS
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.crash import CallSizes
from headcheck.properties.violations.violation import USED_UP, SubmissionFailed, Violation

OWN_SIZES = tuple(
    (capability, size.taken)
    for part in PARTS
    for capability in part.brings
    for size in part.quantities
    if isinstance(size.absent, int)
)
"""sizes of cases that few contracts have"""


@contextmanager
def add_call_sizes(
    contract: Contract, case: Case, x: Tensor | None = None, others: Sequence[Tensor] = ()
) -> Iterator[None]:
    """Add the sizes of the call to a crash that happens inside, or if it takes too long."""
    try:
        yield
    except SubmissionFailed as failure:
        if failure.crash is not None:
            sizes = list_call_sizes(contract, case, x, others)
            failure.crash = replace(failure.crash, sizes=sizes)
        if failure.status in USED_UP and x is not None and x.dim() == 3:
            called = replace(case, batch=x.shape[0], tokens=x.shape[1])
            failure.called = None if called == case else called
        raise


@contextmanager
def add_case(contract: Contract, case: Case) -> Iterator[None]:
    """Add this case, which differs from the check's own, to failures that happen inside."""
    try:
        yield
    except (SubmissionFailed, Violation) as failure:
        failure.case = failure.case or describe_case(contract, case)
        raise


def list_call_sizes(
    contract: Contract, case: Case, x: Tensor | None = None, others: Sequence[Tensor] = ()
) -> CallSizes:
    """Return the sizes of a call with tokens of shape (batch, tokens, width), or without any.

    `others` are the tokens to which these attend, if they are not the same tokens.
    """
    contract = contract.callee
    sizes = {"d_in": case.d_in, "d_out": case.d_out}
    if contract.square or not contract.mappings:
        del sizes["d_in"]
    if contract.has(Capability.CONTEXT):
        sizes["context_length"] = case.context_length
    if contract.has(Capability.HEADS, Capability.ATTENTION):
        sizes |= {"heads": case.heads, "head_dim": case.head_dim}
    sizes |= {name: getattr(case, name) for needed, name in OWN_SIZES if contract.has(needed)}
    if x is None or x.dim() != 3:
        return CallSizes(list_own_names(contract), sizes)
    sizes["tokens"] = x.shape[1]
    if contract.has(Capability.BATCH):
        sizes["batch"] = x.shape[0]
    if others and others[0].shape[1] != x.shape[1]:
        sizes["keys"] = others[0].shape[1]
    names = list_own_names(contract)
    in_case = sizes["tokens"] == case.tokens and sizes.get("batch", case.batch) == case.batch
    return CallSizes(names, sizes, _describe_input(sizes, names), in_case)


def _describe_input(sizes: Mapping[str, int], names: Mapping[str, str]) -> str:
    tokens = count(sizes["tokens"], "token")
    if (batch := sizes.get("batch")) is not None:
        tokens = f"{count(batch, 'sequence')} of {tokens}"
    if (keys := sizes.get("keys")) is not None:
        tokens = f"{tokens} as queries, with {count(keys, 'key')}"
    if (longest := sizes.get("context_length")) is None:
        return tokens
    return f"{tokens}, with a {names.get('context_length', 'context_length')} of {longest}"
