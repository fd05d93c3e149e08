"""Hypothesis strategies of cases: all that a contract allows, and all that are smaller than one.

A case shrinks well, because it is a few small values from which its tensors are derived.
"""

from hypothesis import strategies as st
from hypothesis.errors import InvalidArgument
from hypothesis.strategies import SearchStrategy

from properties.case import Case, MaskForm, MaskType, MemoryLayout
from properties.cases.case_set import LEVELS
from properties.cases.case_tensors import DTYPES
from properties.cases.small_cases import list_smaller_values
from properties.contract import Contract


def cases(
    contract: Contract,
    *,
    max_tokens: int = 12,
    max_heads: int = 5,
    dtypes: tuple[str, ...] = ("float64",),
    devices: tuple[str, ...] = ("cpu",),
) -> SearchStrategy[Case]:
    """Cases that the contract allows; they shrink to one short sequence of small tokens.

    Raises InvalidArgument if there is nothing to draw from, or a dtype is unknown.
    """
    if max_tokens < 1 or max_heads < 1 or not dtypes or not devices:
        raise InvalidArgument("cases() needs max_tokens and max_heads >= 1, a dtype and a device")
    if unknown := set(dtypes) - set(DTYPES):
        raise InvalidArgument(f"no dtypes of a case: {sorted(unknown)}; there are {list(DTYPES)}")
    drawn = st.builds(
        Case,
        batch=st.integers(1, 3),
        tokens=st.integers(1, max_tokens),
        context_length=st.integers(1, max_tokens),
        d_in=st.integers(1, 8),
        heads=st.integers(1, max_heads),
        head_dim=st.integers(1, 6),
        bias=st.booleans(),
        dropout=st.sampled_from((0.0, 0.1, 0.5)),
        sharpness=st.integers(1, 8),
        content=st.sampled_from(LEVELS["content"]),
        memory=st.sampled_from(MemoryLayout),
        mask_form=st.sampled_from(MaskForm),
        mask_type=st.sampled_from(MaskType),
        dtype=st.sampled_from(dtypes),
        device=st.sampled_from(devices),
        seed=st.integers(0, 999),
    )
    return drawn.map(contract.fit)


def smaller_cases(case: Case) -> SearchStrategy[Case]:
    """Cases that are nowhere larger than this one: the candidates for a simpler example."""
    fields = list_smaller_values(case)
    return st.builds(Case, **{name: st.sampled_from(fields[name]) for name in fields})
