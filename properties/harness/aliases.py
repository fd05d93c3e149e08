"""Find weights under other names, by the words in their names and by their shapes.

A layer called `q_proj` where the exercise says `W_query` computes the same. A submission with other
names gets a note, and its behaviour is checked. Only a complete and unambiguous match counts;
otherwise the module lacks the weights that the exercise names.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from headcheck.properties.contracts.contract import Contract
from headcheck.properties.contracts.parameter_mapping import ParameterMapping
from headcheck.properties.subject import TensorInfo
from headcheck.properties.terms.case import Case

ROLES: tuple[tuple[tuple[str, ...], re.Pattern[str]], ...] = (
    (("q",), re.compile(r"[wb]?q|w?quer(y|ies)")),
    (("k",), re.compile(r"[wb]?k|w?keys?")),
    (("v",), re.compile(r"[wb]?v|w?val(ue)?s?")),
    (("o",), re.compile(r"[wb]?o|out(put)?")),
    (("q", "k", "v"), re.compile(r"w?qkv|w?kqv|attn|in")),
    (("o",), re.compile(r"proj(ection)?|dense|final|combine|merge")),
)
"""patterns for words in a name, each with the projections that they stand for, the more specific
words first
"""


def resolve_aliases(
    contract: Contract, case: Case, tensors: Mapping[str, TensorInfo]
) -> Contract | None:
    """Return the contract with this module's own paths; None unless every weight is found."""
    shapes = contract.get_parameter_shapes(case)
    mappings: list[ParameterMapping] = []
    for mapping in contract.mappings:
        if mapping.is_bias and not contract.has_biases(case):
            mappings.append(_rename_bias_like_weight(mapping, contract.mappings, mappings))
            continue
        wanted = mapping.path.format(head=0)
        path = wanted if wanted in tensors else _find_path(mapping, shapes[wanted], tensors)
        if path is None:
            return None
        mappings.append(replace(mapping, path=_insert_head_field(path, mapping)))
    other = replace(contract, mappings=tuple(mappings))
    return other if set(other.get_parameter_shapes(case)) <= set(tensors) else None


def _find_path(
    mapping: ParameterMapping, shape: tuple[int, ...], tensors: Mapping[str, TensorInfo]
) -> str | None:
    """Return the only parameter with this role and shape; with one for each head, the first."""
    role = tuple(name[-1] for name in mapping.holds)
    fitting = [
        path
        for path, info in tensors.items()
        if info.kind == "parameter"
        and info.shape == shape
        and infer_role(path) == role
        and ("{head}" not in mapping.path or re.search(r"\.0\.", f".{path}."))
    ]
    return fitting[0] if len(fitting) == 1 else None


def infer_role(path: str) -> tuple[str, ...] | None:
    """Return the projections a name stands for: ("q",), ("q", "k", "v"), ("o",) …; None if none."""
    split = re.sub(r"([a-z])([A-Z])", r"\1_\2", path).lower()
    words = [word for word in re.split(r"[._\d]+", split) if word]
    for role, pattern in ROLES:
        if any(pattern.fullmatch(word) for word in words):
            return role
    return None


def _insert_head_field(path: str, mapping: ParameterMapping) -> str:
    if "{head}" not in mapping.path or "{head}" in path:
        return path
    return re.sub(r"(^|\.)0(\.|$)", r"\g<1>{head}\g<2>", path, count=1)


def _rename_bias_like_weight(
    mapping: ParameterMapping, asked: tuple[ParameterMapping, ...], found: list[ParameterMapping]
) -> ParameterMapping:
    """Return the mapping of a bias that is absent in this case, renamed like its weight."""
    weight = mapping.path.replace("bias", "weight")
    for old, new in zip(asked, found, strict=False):
        if old.path == weight:
            return replace(mapping, path=new.path.replace("weight", "bias"))
    return mapping
