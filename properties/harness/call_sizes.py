"""The sizes of one call of a submission, in the words of its exercise."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from torch import Tensor

from properties.case import Case
from properties.contract import Capability, Contract
from properties.counting import count
from properties.crash import CallSizes
from properties.violation import SubmissionFailed

CONFIG_NAMES = {"d_out": "n_embd", "heads": "n_head", "context_length": "block_size"}
"""what a config calls the sizes, unless it has fields of its own"""

OWN_SIZES = (
    (Capability.GROUPED, "kv_heads"),
    (Capability.WINDOW, "window"),
    (Capability.LATENT, "d_latent"),
    (Capability.LATENT, "rope_dim"),
    (Capability.BLOCKED, "block"),
)
"""sizes that few contracts have"""


@contextmanager
def add_call_sizes(
    contract: Contract, case: Case, x: Tensor | None = None, others: Sequence[Tensor] = ()
) -> Iterator[None]:
    """Let what is said of a crash inside have the sizes of the call."""
    try:
        yield
    except SubmissionFailed as failure:
        if failure.crash is not None:
            sizes = list_call_sizes(contract, case, x, others)
            failure.crash = replace(failure.crash, sizes=sizes)
        raise


def list_call_sizes(
    contract: Contract, case: Case, x: Tensor | None = None, others: Sequence[Tensor] = ()
) -> CallSizes:
    """Return the sizes of a call with tokens of shape (batch, tokens, width), or without any.

    `others` are the tokens that they attend to, if not to each other.
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
        return CallSizes(_list_own_names(contract), sizes)
    sizes["tokens"] = x.shape[1]
    if contract.has(Capability.BATCH):
        sizes["batch"] = x.shape[0]
    if others and others[0].shape[1] != x.shape[1]:
        sizes["keys"] = others[0].shape[1]
    names = _list_own_names(contract)
    in_case = sizes["tokens"] == case.tokens and sizes.get("batch", case.batch) == case.batch
    return CallSizes(names, sizes, _describe_input(sizes, names), in_case)


def _list_own_names(contract: Contract) -> dict[str, str]:
    """Return what an exercise calls the sizes, where that is not what we do."""
    own = {argument.quantity: argument.name for argument in contract.arguments}
    if not contract.mappings:
        own["d_out"] = "d"
    config = next((a for a in contract.arguments if a.quantity == "config"), None)
    if config is not None:
        own |= {field.quantity: field.name for field in config.fields} or CONFIG_NAMES
    if own.get("head_dim") == "d_out":
        own["d_out"] = "d_out * num_heads"
    return own


def _describe_input(sizes: Mapping[str, int], names: Mapping[str, str]) -> str:
    tokens = count(sizes["tokens"], "token")
    if (batch := sizes.get("batch")) is not None:
        tokens = f"{count(batch, 'sequence')} of {tokens}"
    if (keys := sizes.get("keys")) is not None:
        tokens = f"{tokens} as queries, with {count(keys, 'key')}"
    if (longest := sizes.get("context_length")) is None:
        return tokens
    return f"{tokens}, with a {names.get('context_length', 'context_length')} of {longest}"
