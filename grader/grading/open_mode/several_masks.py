"""The masks of a class that takes several: each is judged, and the record that loses most kept."""

import re
from dataclasses import replace

from headcheck.properties.binding.binding import Binding
from headcheck.properties.binding.calls import list_mask_names, list_masks_of_others
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.signatures.signature import Signature
from headcheck.properties.terms.call_form import Polarity

C = Capability
OF_OTHERS = re.compile(r".*head_?mask|q(uery|ueries)?_(\w+_)?mask|\w*mask_q(uery|ueries)?")
"""names of masks of heads and of queries, which do other things than masks of keys"""


def takes_mask(binding: Binding) -> bool:
    """Whether a class is recognised with a mask that its calls are given."""
    return bool(binding.contract.capabilities & {C.MASK, C.PADDING})


def list_other_masks(signature: Signature, binding: Binding) -> list[str]:
    """Return the names of the masks that a class takes besides the one that is judged."""
    contract, names = binding.contract, list_mask_names(signature.call)
    if not takes_mask(binding):
        return []
    judged = contract.call_form.mask.argument or names[0]
    optional = {parameter.name for parameter in signature.call if parameter.has_default}
    left_out = {judged, *list_masks_of_others(signature.call)}
    others = (name for name in names if name in optional - left_out)
    return [name for name in others if not OF_OTHERS.fullmatch(name.lower())]


def give_first_mask(alone: Binding, signature: Signature, binding: Binding) -> Binding:
    """Return the binding by one mask; calls are given the class's first mask, too, hiding nothing.

    So a class that hides only what both masks hide fails.
    """
    first, form = binding.contract.call_form.mask, alone.contract.call_form
    if form.cache is not None or alone.broken is not None:
        return alone  # a mask of tokens that are not there yet has no shape
    named = first.argument or list_mask_names(signature.call)[0]
    own = replace(form, beside=replace(first, argument=named))
    return replace(alone, contract=replace(alone.contract, call_form=own))


def add_masks(binding: Binding) -> Binding | None:
    """Return the binding with masks that are added; None if calls get one mask, or others.

    A fused kernel takes both kinds, but a class that adds up its masks means the second.
    """
    form = binding.contract.call_form
    if form.beside is None or {form.mask.polarity, form.beside.polarity} != {Polarity.KEEP}:
        return None
    mask, beside = (
        replace(each, polarity=Polarity.ADDED, dtype=None) for each in (form.mask, form.beside)
    )
    own = replace(form, mask=mask, beside=beside)
    return replace(binding, contract=replace(binding.contract, call_form=own))
