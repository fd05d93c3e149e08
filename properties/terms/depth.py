"""How much is asked of an answer."""

from enum import StrEnum


class Depth(StrEnum):
    """How much is asked of an answer. Whatever fails at the usual depth fails at the other, too."""

    USUAL = "usual"
    """what finds the mistakes that people make"""
    THOROUGH = "thorough"
    """everything"""
