"""The text that follows the violation in a failing test: the command to replay it, and counts."""

import re
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from headcheck.grader.report.feedback import Feedback, FeedbackLevel
from headcheck.properties.cases.case_text import format_case
from headcheck.properties.contracts.case_description import describe_case
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.counting import count
from headcheck.properties.property import Property, Verdict
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import SubmissionFailed, head_check

MAX_REASONS = 3
STATEMENT = re.compile(r"\b(the|this) statement\b")
"""how claims, hints and mistakes refer to the statement of the exercise"""
HIDDEN_FAILURE = "A check that is not shown does not hold."


@dataclass(frozen=True, slots=True)
class ReplayCommand:
    """The command that runs one property of an implementation on one case."""

    name: str
    """`package.module:Name` or `path/to/file.py:Name`"""
    asked: tuple[str, ...] = ()
    """the option that names its contract; empty if the contract is recognised from the code"""
    sizes: str = ""

    def render(self, prop: Property, case: Case) -> str:
        words = [*self.asked, "--property", prop.name]
        sizes = f' --sizes "{self.sizes}"' if self.sizes else ""
        command = f'headcheck replay-case "{format_case(case)}" {shlex.quote(self.name)}'
        return f"{command} {shlex.join(words)}{sizes}"


def complete_verdict(verdict: Verdict, contract: Contract) -> Verdict:
    """Return a verdict whose violation states the claim, the case and the hint."""
    if verdict.violation is None or verdict.case is None:
        return verdict
    prop, on = verdict.property, describe_case(contract, verdict.case)
    return replace(verdict, violation=verdict.violation.with_details(prop.claim, on, prop.hint))


def describe_failure(verdict: Verdict, feedback: Feedback) -> str:
    """Return the part of a failing property's message that the feedback setting allows."""
    if verdict.property.name in feedback.hidden:
        return HIDDEN_FAILURE
    level = feedback.get_level(verdict.property.name)
    if level.includes(FeedbackLevel.CASE):
        return verdict.message
    if level is FeedbackLevel.MESSAGE:
        return verdict.redacted_message
    return head_check(verdict.status, verdict.property.claim)


def name_contract(message: str) -> str:
    """Return a message for readers who have a contract but no statement."""
    return STATEMENT.sub(r"\1 contract", message)


def add_row(message: str, name: str, text: str) -> str:
    """Return a message with one more row."""
    return f"{message}\n  {name:<9} {text}"


def describe_refusals(refusals: Sequence[SubmissionFailed], tried: int) -> str:
    """Return a text that says how many cases are refused, and why."""
    reasons = Counter(str(refusal) for refusal in refusals).most_common()
    shown = [f"{count}: {reason}" for reason, count in reasons[:MAX_REASONS]]
    more = [count(len(reasons) - MAX_REASONS, "other reason")] * (len(reasons) > MAX_REASONS)
    which = "\n            ".join([*shown, *more]) if len(reasons) > 1 else ""
    counted = f"{len(refusals)} of {count(tried, 'case')}; the properties are tried on the others"
    return f"{counted}\n            {which}" if which else counted
