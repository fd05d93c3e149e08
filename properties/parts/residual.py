"""Tokens that a module adds to what its attention gives: a residual.

The module is judged by its attention: calls take the tokens off again. What is judged is right up
to the rounding of the sum.
"""

from headcheck.properties.parts.part import Part

RESIDUAL = Part(
    name="residual",
    is_in=lambda contract: contract.call_form.adds_tokens,
    make_steps=lambda contract, case: {"adds_tokens": True},
)
