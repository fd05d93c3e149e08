"""The decisions about an exercise that the solution's behaviour does not show."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from headcheck.exercises.contract_file import USUAL_CALLS
from headcheck.grader import UserError
from headcheck.properties.contracts.contract import CONSTANT, Argument, Capability, Contract
from headcheck.properties.contracts.implied_capabilities import complete_capabilities
from headcheck.properties.terms.call_form import USUAL

C = Capability


class CannotAuthor(UserError):
    """No exercise can be made from a file; the message, one line, says why and what to do."""


class BadDecision(UserError, ValueError):
    """The decision does not fit the solution; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question to the instructor, with the answer that the solution suggests."""

    name: str
    text: str
    suggested: bool
    said: Mapping[bool, str]
    """the meaning of each answer, for the report"""


CAUSAL = {True: "later tokens are hidden", False: "every token sees every other"}
DROPOUT = {True: "its dropout on the weights is judged", False: "its dropout is not judged"}
UNIFORM = {
    True: "the weights must start from torch.rand",
    False: "the weights may start from any numbers",
}


def list_questions(contract: Contract) -> list[Question]:
    """Return the questions about a class that was recognised."""
    questions = []
    if not contract.has(C.MASK) and not contract.has(C.PADDING) and not contract.has(C.CROSS):
        causal = contract.has(C.CAUSAL)
        text = "Is it meant to be causal, so that no token sees a later one?"
        questions.append(Question("causal", text, causal, CAUSAL))
    if contract.has(C.DROPOUT):
        text = "Should dropout act on the attention weights, and only in training?"
        questions.append(Question("dropout", text, True, DROPOUT))
    if contract.has(C.PROJECTED):
        text = "Must the weights start from torch.rand?"
        questions.append(Question("uniform", text, False, UNIFORM))
    return questions


def decide(contract: Contract, answers: Mapping[str, bool]) -> Contract:
    """Return the contract with the answers and all their consequences. Raises BadDecision.

    The keys of `answers` must be names of questions; any other key is refused.
    """
    questions = {question.name: question for question in list_questions(contract)}
    for name in answers.keys() - questions.keys():
        raise BadDecision(EXPLANATIONS[name])
    said = {name: question.suggested for name, question in questions.items()} | dict(answers)
    capabilities = set(contract.capabilities)
    if "causal" in said:
        capabilities -= {C.CAUSAL, C.FULL}
        capabilities.add(C.CAUSAL if said["causal"] else C.FULL)
    if not said.get("dropout"):
        capabilities.discard(C.DROPOUT)
    if said.get("uniform"):
        capabilities.add(C.UNIFORM)
    return settle(replace(contract, capabilities=frozenset(capabilities)))


EXPLANATIONS = {
    "causal": (
        "--causal and --no-causal: it takes a mask, or tokens to attend to, which decide who "
        "sees whom; leave out the option"
    ),
    "dropout": (
        "--dropout and --no-dropout: it has no dropout of attention weights; leave out the "
        "option, or drop weights by an argument of the constructor"
    ),
    "uniform": "--uniform and --no-uniform: it has no weights; leave out the option",
}


def settle(contract: Contract) -> Contract:
    """Return the contract as if it had been read from a file."""
    arguments = contract.arguments
    if not contract.has(C.DROPOUT):
        arguments = tuple(map(_without_dropout, arguments))
    sizes = dict(contract.sizes or {})
    if not contract.has(C.HEADS) and sizes.get("heads") == 1:
        del sizes["heads"]  # as without HEADS
    form, call = contract.call_form, contract.call
    if not (contract.has(C.MASK) or contract.has(C.PADDING) or form.mask.required):
        call = tuple(role for role in call if role != "mask")  # what it does is not known
        form = replace(form, inputs=call)
    if call in USUAL_CALLS and replace(form, inputs=USUAL.inputs) == USUAL:
        form = USUAL
    settled = replace(contract, arguments=arguments, sizes=sizes or None, call=call, call_form=form)
    settled = replace(settled, capabilities=complete_capabilities(settled))
    rules = settled.size_rules
    return settled if rules is None else settled.with_sizes(rules)


def _without_dropout(argument: Argument) -> Argument:
    if argument.quantity == "dropout":
        return replace(argument, quantity=CONSTANT, default=0.0)
    return replace(argument, fields=tuple(map(_without_dropout, argument.fields)))
