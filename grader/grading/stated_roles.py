"""The user's statements about a class that is recognised by behaviour: `--bind heads=n_head`."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from headcheck.grader import UserError
from headcheck.properties.binding.describe import QUANTITY_WORDS
from headcheck.properties.signatures.signature import Signature, SignatureParameter

TRUTH = {"yes": True, "no": False}


class BadBinding(UserError):
    """A statement cannot be parsed; the message says why, and what to write instead."""


@dataclass(frozen=True)
class StatedRoles:
    """The quantities that arguments and variables hold, and whether the class is causal."""

    quantities: Mapping[str, str] = field(default_factory=dict)
    """the quantities, by the name of the argument or variable"""
    causal: bool | None = None

    def add_to(self, signature: Signature) -> Signature:
        """Return the signature with these statements added to it."""
        return replace(
            signature,
            constructor=tuple(map(self._complete, signature.constructor)),
            variables=tuple(map(self._complete, signature.variables)),
            causal=signature.causal if self.causal is None else self.causal,
        )

    def _complete(self, parameter: SignatureParameter) -> SignatureParameter:
        return replace(parameter, quantity=self.quantities.get(parameter.name))


def parse_roles(texts: Sequence[str]) -> StatedRoles:
    """Read statements of the form QUANTITY=ARGUMENT, or causal=yes. Raises BadBinding."""
    quantities: dict[str, str] = {}
    causal = None
    for text in texts:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not (key and equals and value):
            raise BadBinding(f"--bind {text}: write QUANTITY=ARGUMENT, such as heads=n_head")
        if key == "causal":
            if value not in TRUTH:
                raise BadBinding(f"--bind {text}: write causal=yes or causal=no")
            causal = TRUTH[value]
        elif key not in QUANTITY_WORDS:
            raise BadBinding(f"--bind {text}: there is no quantity {key!r}; {_suggest(key)}")
        else:
            quantities[value] = key
    return StatedRoles(quantities, causal)


def _suggest(key: str) -> str:
    known = (*QUANTITY_WORDS, "causal")
    close = difflib.get_close_matches(key, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}"
