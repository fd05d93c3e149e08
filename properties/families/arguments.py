"""Arguments may be written in every way that Python and the statement's signature allow."""

from headcheck.properties.cases.case_transforms import at_least, compose, with_values
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.families.constructor import its_arguments_may_be_given_by_position
from headcheck.properties.families.contract import FORM
from headcheck.properties.families.decoding import one_token_at_a_time_gives_the_same_output
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.harness.module_adapter import build_module
from headcheck.properties.harness.steps import build_fresh_module
from headcheck.properties.property import PropertyFamily, PropertyGroup
from headcheck.properties.subject import Chunk
from headcheck.properties.terms.case import MaskForm

contract = PropertyFamily(PropertyGroup.CONTRACT)
cache = PropertyFamily(PropertyGroup.CACHE, FORM)


@contract(
    C.STATED,
    C.INITIALISED,
    C.DROPOUT,
    after=(its_arguments_may_be_given_by_position,),
    limit=1,
    on=at_least(tokens=3),
    hint="Python takes a whole number where it expects a float",
)
def a_rate_of_zero_may_be_written_as_0(context: LiveContext) -> None:
    """It can be built with 0 instead of 0.0, as a rate of dropout is often written."""
    rates = {a.name: 0 for a in context.contract.arguments if a.quantity == "dropout"}
    arguments = {**context.contract.build_arguments(context.case), **rates}
    build_module(context.harness.subject, context.contract, context.case, arguments)


@cache(
    C.STATED,
    C.HANDED_CACHE,
    on=compose(at_least(tokens=5), with_values(mask_form=MaskForm.NONE)),
    after=(one_token_at_a_time_gives_the_same_output,),
    limit=1,
    hint="in the statement's signature nothing stands before it but x",
)
def what_is_kept_may_be_given_by_position(context: LiveContext) -> None:
    """The cache of an earlier call can be passed by position after x, or by name."""
    if "mask" in context.contract.call_form.inputs:
        return  # which of the two comes first, only the statement says
    chunks = [Chunk(context.x[:, :-1], None), Chunk(context.x[:, -1:], 0)]
    _, answer = build_fresh_module(context).decode(chunks, manner="by position")
    context.check_form(answer, context.x[:, -1:])
    got, limit = answer.outputs[0].double(), context.tolerance[:, -1:]
    context.assert_unchanged(got, context.output[:, -1:], limit, "output of the last token")
