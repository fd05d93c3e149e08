"""What functions that make masks and rotary tables are called with, and asked about the result."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headcheck.grader.reading.parameters import Parameter
from headcheck.properties.terms.group import PropertyGroup

BATCH, TOKENS, WIDTH, BASE = 2, 7, 8, 1e4
REAL = torch.tensor([[True] * 5 + [False] * 2, [True] * TOKENS])
"""which tokens are not padding"""
LENGTH = (
    r"[ntl]|(?!vocab|window|head|kernel|patch|image|hidden|emb)(\w+_)?(size|sz|len(gth)?|seqlen)"
    r"|n_?(tokens|positions|ctx)|num_(tokens|positions)|end|max_position_embeddings"
)
SHARED = (("dtype", r"dtype"), ("device", r"device"), ("batch", r"b|bsz?|batch(_size)?|sz_b"))
OF_MASKS = (
    *SHARED,
    ("padding", r"(\w+_)?pad(ding)?(_?(idx|id|index|token|token_id|value|symbol))?"),
    ("lengths", r"(\w+_)?(lens|lengths)"),
    ("keep", r"((attention|padding|attn|key_padding|input)_)?mask"),
    ("length", LENGTH),
    ("ids", r"x|q|k|(\w+_)?(seq(_\w+)?|ids|tokens?|tgt|trg|tar|target|src|source|inp|inputs?)"),
)
OF_TABLES = (
    *SHARED,
    ("base", r"(\w+_)?(base|theta)"),
    ("width", r"d|((head|rotary|rope)_?)?(dim|size)|d_?(head|k|rope)|dim_head|n_elem|hd"),
    ("length", LENGTH),
    ("positions", r"(\w+_)?pos(ition)?s?(_?ids)?"),
    ("tokens", r"x|q|k|v|hidden_states|value_states"),
)
NAMED_KINDS = ("positional", "keyword")
Words = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class HelperCall:
    """What a function is given, by name, and which kinds of things these are."""

    numbers: Mapping[str, float | str]
    tensors: Mapping[str, Tensor]
    dtypes: Sequence[str]
    kinds: frozenset[str]

    def __str__(self) -> str:
        listed = [f"{name}={value}" for name, value in self.numbers.items()]
        listed += [f"{name}={tensor.tolist()[0]}" for name, tensor in self.tensors.items()]
        return ", ".join(listed)


@dataclass(frozen=True, slots=True)
class HelperFinding:
    """What a function should make and what it makes, in words; both empty if it is right."""

    expected: str = ""
    got: str = ""

    @property
    def is_right(self) -> bool:
        return not self.expected


@dataclass(frozen=True, slots=True)
class HelperQuestion:
    """What is claimed of the result of a call, and how the result is judged."""

    claim: str
    group: PropertyGroup
    call: HelperCall
    judge: Callable[[Sequence[Tensor]], HelperFinding | None]
    """returns None if the result may be of something else"""


def choose_call(
    parameters: Sequence[Parameter], words: Words, padding: int = 0
) -> HelperCall | None:
    """Return the arguments that names suggest; None if one that counts says nothing.

    The number of padding is `padding`, unless a default says another. Other defaults are kept.
    """
    named = [(p, _guess_kind(p.name, words)) for p in parameters if p.kind in NAMED_KINDS]
    stated = (p.default for p, kind in named if kind == "padding" and type(p.default) is int)
    values = _make_values(next(stated, padding))
    passed = [(p.name, kind) for p, kind in named if not p.has_default or kind == "padding"]
    if not all(kind for _, kind in passed):
        return None
    given = {name: values.get(kind) for name, kind in passed}
    return HelperCall(
        {name: v for name, v in given.items() if isinstance(v, int | float | str)},
        {name: v for name, v in given.items() if isinstance(v, Tensor)},
        [name for name, v in given.items() if v is None],
        frozenset(kind for _, kind in passed),
    )


def _guess_kind(name: str, words: Words) -> str:
    """Return the kind of thing that a parameter takes, by its name; "" if this says nothing."""
    plain = re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()
    return next((kind for kind, pattern in words if re.fullmatch(pattern, plain)), "")


def _make_values(padding: int) -> Mapping[str, float | str | Tensor]:
    """Return what to pass for each kind of parameter, except dtypes."""
    ids = (padding + 4 + torch.arange(TOKENS)).expand(BATCH, -1).masked_fill(~REAL, padding)
    return {
        "device": "cpu", "batch": BATCH, "length": TOKENS, "width": WIDTH, "base": BASE,
        "padding": padding, "ids": ids, "keep": REAL.long(), "lengths": REAL.sum(-1),
        "positions": torch.arange(TOKENS).expand(BATCH, -1),
        "tokens": torch.zeros(BATCH, TOKENS, WIDTH, dtype=torch.float64),
    }  # fmt: skip
