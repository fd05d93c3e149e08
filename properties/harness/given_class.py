"""Messages about a module's form: its parameters, and a class that the exercise provides."""

from collections.abc import Mapping, Sequence

from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.subject import CallOptions
from headcheck.properties.violations.violation import Reason, Violation, ViolationKind

BUILDER_HINT = "which argument decides how wide the output is, and is each in its place?"
MAX_LISTED = 8
"""the most parameters to list in a message about a missing one"""


def assert_given_class_fits(context: LiveContext, found: Mapping[str, tuple[int, ...]]) -> None:
    """Raise Violation if the output shows that a provided class was built with wrong sizes.

    Students do not write the weights of such a class, but choose its arguments.
    """
    if found == context.contract.get_parameter_shapes(context.case):
        return
    answer = context.adapter.forward(context.x, context.mask, CallOptions())
    for output, shape in zip(
        answer.outputs, context.compute_output_shapes(context.x), strict=False
    ):
        got = tuple(output.shape)
        if got != shape:
            raise Violation(
                ViolationKind.SHAPE,
                f"shape {shape}",
                f"shape {got}",
                "output",
                hint=BUILDER_HINT,
                reason=Reason.BUILT_OTHERWISE,
            )


def list_some(names: Sequence[str]) -> str:
    """Return the first names of a list, and how many more there are."""
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return f"{', '.join(names[:MAX_LISTED])}{more}"
