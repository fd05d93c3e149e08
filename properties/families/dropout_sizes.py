"""Dropout acts at every size.

At one size the dropped weights are counted (`properties/families/dropout.py`). Code may take
another path if there is nothing to average: for a single token, a window of one, one head. So this
property checks other sizes, with two calls each. Half of the weights are dropped and the others
doubled, so no token of a right module has the same output as in evaluation. For equal outputs, sums
of random numbers would have to cancel in all dimensions, up to rounding.
"""

from headcheck.properties.cases.case_transforms import with_values
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.counting import count
from headcheck.properties.families.contract import FORM
from headcheck.properties.families.dropout import dropout_acts_on_the_attention_weights
from headcheck.properties.families.dropped_weights import DROPOUT_SEED
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.property import PropertyFamily, PropertyGroup, Sizes
from headcheck.properties.subject import CallOptions
from headcheck.properties.terms.case import InputContent
from headcheck.properties.violations.violation import Violation, ViolationKind

family_property = PropertyFamily(PropertyGroup.DROPOUT, FORM)
SIZES: tuple[Sizes, ...] = tuple(
    {"batch": 2, "d_in": 4, "heads": 2, "head_dim": 3, "bias": True, "dropout": 0.5, **sizes}
    for sizes in (
        {"tokens": 1, "batch": 1},
        {"tokens": 1, "context_length": 5},
        {"tokens": 2, "heads": 1, "batch": 1},
        {"tokens": 3, "window": 1},
        {"tokens": 3, "window": 3, "heads": 4, "group": 4},
        {"tokens": 5, "context_length": 9, "window": 2, "heads": 6, "group": 3},
        {"tokens": 17, "heads": 1, "head_dim": 64},
        {"tokens": 4, "batch": 17, "heads": 9},
        {"tokens": 300, "heads": 1, "batch": 1, "window": 300},
    )
)
GRADIENTS = ("grad", "no_grad")
"""the gradient modes of training calls, with gradients first; random draws need not depend on the
mode
"""


@family_property(
    Capability.DROPOUT,
    Capability.WIDTHS,
    Capability.TOKENS,
    after=(dropout_acts_on_the_attention_weights,),
    sizes=SIZES,
    # Of two tokens with equal values, one may be dropped and the other doubled: the sum stays.
    on=with_values(dropout=0.5, content=InputContent.NORMAL),
    hint="is there a case in which the weights are not used, or not dropped?",
    dtypes=("float64",),
    usual=0,
)
def dropout_acts_at_every_size(context: LiveContext) -> None:
    """Weights are dropped at every size: with one token, key or head, and with many."""
    expected, limit = context.expected.outputs[0], context.expected.tolerances[0]
    for grad in GRADIENTS:
        options = CallOptions(training=True, seed=DROPOUT_SEED, grad=grad)
        output = context.run_module(options=options)[0].detach()
        alike = ((output - expected).abs() <= limit.float32).all(-1)
        if bool(alike.any()):
            got = f"that of evaluation, for {int(alike.sum())} of {count(alike.numel(), 'token')}"
            raise Violation(ViolationKind.VALUE, "another output in training", got)
