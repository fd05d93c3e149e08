"""What is said of an answer that crashes: it is built, called and differentiated once."""

import tomllib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from headcheck.exercises import BY_SLUG
from headcheck.grader.sandbox.grader_side.in_process import UnconfinedSandbox
from headcheck.grader.sandbox.grader_side.session import Session
from headcheck.grader.sandbox.grader_side.subject import ChannelSubject
from headcheck.grader.sandbox.limits import Limits
from headcheck.properties.harness.harness import Harness
from headcheck.properties.subject import CallOptions
from headcheck.properties.terms.case import Case, MaskForm
from headcheck.properties.violations.violation import SubmissionFailed

FOLDER = Path(__file__).parent
SIZES = Case(batch=4, tokens=7, context_length=9, d_in=5, heads=2, head_dim=11, seed=1)
"""No two sizes are equal here, and none is made of others."""


@dataclass(frozen=True)
class CrashingAnswer:
    """An answer that crashes, and what has to be said of it."""

    name: str
    exercise: str
    source: str
    named: str
    """the name of the sentence that is true of it; empty if none is"""
    told: str
    """the name of the sentence that is told"""
    says: str
    mask: bool
    tokens: int

    @property
    def case(self) -> Case:
        contract = BY_SLUG[self.exercise].contract
        form = MaskForm.QUERY_KEY if self.mask else MaskForm.NONE
        return contract.fit(replace(SIZES, mask_form=form, tokens=self.tokens))


def load_table(file: str) -> dict[str, CrashingAnswer]:
    """The answers of a table, by name: the solution, or another base, with edits."""
    table = tomllib.loads((FOLDER / file).read_text(encoding="utf-8"))
    return {name: _read_entry(name, entry) for name, entry in table.items()}


def _read_entry(name: str, entry: Mapping[str, object]) -> CrashingAnswer:
    slug = str(entry["exercise"])
    base = str(entry.get("base", "solution.py"))
    source = (BY_SLUG[slug].folder / base).read_text(encoding="utf-8")
    edits = entry["edits"]
    assert isinstance(edits, list), "edits are a list"
    for edit in edits:
        assert edit["replace"] in source, f"{name}: {edit['replace']!r} is not in {base}"
        source = source.replace(edit["replace"], edit["by"])
    named = str(entry.get("named", ""))
    told, says = str(entry.get("told", named)), str(entry.get("says", ""))
    mask, tokens = bool(entry.get("mask")), entry.get("tokens", SIZES.tokens)
    assert isinstance(tokens, int), "tokens are counted"
    return CrashingAnswer(name, slug, source, named, told, says, mask, tokens)


def crash(answer: CrashingAnswer) -> SubmissionFailed | None:
    """How an answer fails when it is built, called, and differentiated; None if it does not."""
    contract = BY_SLUG[answer.exercise].contract
    session = Session(UnconfinedSandbox("a test"), answer.source.encode(), "py", Limits())
    with warnings.catch_warnings(action="ignore"):  # torch warns of some of the mistakes
        try:
            session.load(contract.name, *_list_others(answer.exercise))
            context = Harness(ChannelSubject(session), contract).create_context(answer.case)
            context.run_module()
            context.run_module(options=CallOptions(training=True, grad="grad"))
            context.compute_gradients(context.cotangent)
        except SubmissionFailed as failure:
            return failure
    return None


def _list_others(slug: str) -> list[str]:
    transfer = BY_SLUG[slug].contract.transfer
    return [] if transfer is None else [each.name for each in transfer]
