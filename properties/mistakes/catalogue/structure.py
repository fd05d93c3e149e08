"""Structural mistakes, outside the computation of attention; more specific ones come first.

Each is recognised by failed checks (`symptom`). A structural mistake is named only if it explains
every failure that mistakes in the equation do not explain. Its sentence must be true whenever its
symptoms occur.
"""

from collections.abc import Sequence

from headcheck.properties.mistakes.catalogue.caches import CACHES
from headcheck.properties.mistakes.catalogue.forms import FORMS, NUMBERS_AND_SIZES, STARTS
from headcheck.properties.mistakes.catalogue.given_masks import GIVEN_MASKS, MASK_TYPES, RESULTS
from headcheck.properties.mistakes.catalogue.memory import MEMORY
from headcheck.properties.mistakes.catalogue.protocol import PROTOCOL
from headcheck.properties.mistakes.catalogue.registration import REGISTRATION
from headcheck.properties.mistakes.catalogue.state import SIDE_EFFECTS, STATE
from headcheck.properties.mistakes.catalogue.symptom import StructuralMistake
from headcheck.properties.mistakes.catalogue.transfers import TRANSFERS

BESIDE_OTHERS: Sequence[StructuralMistake] = (
    *TRANSFERS, *SIDE_EFFECTS, *MASK_TYPES, *REGISTRATION, *STARTS,
)  # fmt: skip
"""mistakes whose symptoms are the same whether the values are right or wrong"""

STRUCTURAL: Sequence[StructuralMistake] = (
    *TRANSFERS, *SIDE_EFFECTS, *FORMS, *GIVEN_MASKS, *RESULTS, *REGISTRATION, *STATE,
    *NUMBERS_AND_SIZES, *STARTS, *PROTOCOL, *CACHES, *MEMORY,
)  # fmt: skip
