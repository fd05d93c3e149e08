"""Describe a case in one line, in the words of its exercise, such as `num_heads=2`."""

from collections.abc import Iterator

from headcheck.properties.contracts.contract import Capability, Contract, Entry
from headcheck.properties.parts import QUANTITIES
from headcheck.properties.terms.call_form import MaskSource
from headcheck.properties.terms.case import Case, InputContent, MaskForm, MemoryLayout

CONFIG_NAMES = {"d_out": "n_embd", "heads": "n_head", "context_length": "block_size"}
"""the names of sizes in a config, unless it has fields of its own"""


def list_own_names(contract: Contract) -> dict[str, str]:
    """Return the names that an exercise gives to sizes, where they differ from ours."""
    own = {argument.quantity: argument.name for argument in contract.arguments}
    if not contract.mappings:
        own["d_out"] = "d"
    config = next((a for a in contract.arguments if a.quantity == "config"), None)
    if config is not None:
        own |= {field.quantity: field.name for field in config.fields} or CONFIG_NAMES
    if own.get("head_dim") == "d_out":
        own["d_out"] = "d_out * num_heads"
    return own


def describe_case(contract: Contract, case: Case) -> str:
    """Describe a case in one line, without sizes that do not exist in the exercise."""
    own = list_own_names(contract)
    sizes = (f"{own.get(name, name)}={value:g}" for name, value in _list_sizes(contract, case))
    words = [text for text, shown in _list_words(contract, case, own) if shown]
    return " ".join([*sizes, *words, case.dtype, case.device, f"seed={case.seed}"])


def _list_sizes(contract: Contract, case: Case) -> Iterator[tuple[str, float]]:
    """Yield our names of the sizes that exist in an exercise, with their values."""
    has_width = contract.entry is not Entry.BUILDER  # whose author chooses it
    has_heads = contract.has(Capability.HEADS)
    is_apart = any(a.name == "d_out" and a.quantity == "head_dim" for a in contract.arguments)
    has_two_widths = not contract.square and bool(contract.mappings)
    sizes = {
        "batch": contract.has(Capability.BATCH),
        "tokens": True,
        "context_length": contract.has(Capability.CONTEXT),
        "d_in": has_two_widths or not has_width,
        "head_dim" if is_apart else "d_out": has_width,
        "heads": has_heads and (contract.has(Capability.ATTENTION) or not contract.mappings),
        **{own.taken: bool(getattr(case, name)) for name, own in QUANTITIES.items()},
    }
    for name, shown in sizes.items():
        if shown:
            yield name, getattr(case, name)


def _list_words(contract: Contract, case: Case, own: dict[str, str]) -> Iterator[tuple[str, bool]]:
    """Yield the other features in words, each with whether the case has it."""
    mask, form = contract.call_form.mask, str(case.mask_form)
    if mask.keys_only and mask.axes == 2:
        form = form.replace(MaskForm.BATCH_ONE_ONE_KEY.value, "(b, t)")
    yield "causal", case.causal
    yield own.get("bias", "bias"), case.bias
    yield f"dropout={case.dropout:g}", bool(case.dropout)
    yield case.content.value, case.content is not InputContent.NORMAL
    yield f"{case.memory.value} input", case.memory is not MemoryLayout.CONTIGUOUS
    given = f"{case.mask_type} mask {form}"
    if mask.given_as is not MaskSource.MASK:
        given = f"{mask.given_as} of a mask {form}"
    yield given, case.mask_form is not MaskForm.NONE
