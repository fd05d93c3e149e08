"""Explain failures in stages: each stage adds to a report, and no verdict depends on a stage.

So if headcheck itself fails at a stage, the report only lacks that stage's part.

Theory of operation
    Searching for the smallest case on which a property fails costs more than the verdict, and most
    failures of a submission follow from one mistake and are folded away in the report. So the
    failures that follow from a mistake are first determined on the cases on which the properties
    failed. These cases are the same for a whole class, so the effect of a mistake on them is tried
    only once (`consequences`). Then smallest cases are searched for the remaining failures, and
    these are tried again on the smallest cases, since a smaller case may be small enough to be
    tried, or may show a mistake more plainly. Among the failures that follow from a mistake, only
    those that are shown beside the named mistake get smallest cases: the first one, and those for
    which figures are drawn.

    A submission that answers the same request differently fails by chance, so headcheck does not
    shrink its cases.
"""

import contextlib
import functools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from headcheck.grader import fault
from headcheck.grader.grading import evidence, explain, prints
from headcheck.grader.grading.attempts import has_side_effects
from headcheck.grader.grading.consequences import Explained, explain_verdicts
from headcheck.grader.grading.evidence import list_candidates
from headcheck.grader.grading.excerpts import collect_excerpts
from headcheck.grader.grading.infer import Target
from headcheck.grader.grading.live_checker import LiveChecker
from headcheck.grader.grading.recording import (
    Explanation,
    list_locations,
    record_properties,
    record_search,
)
from headcheck.grader.grading.search import SearchResult
from headcheck.grader.grading.settings import Settings
from headcheck.grader.report.records import DiagnosisRecord, Excerpt, NoteRecord, PlaceRecord
from headcheck.grader.sandbox.grader_side.servers import SandboxError
from headcheck.properties.check import Searched
from headcheck.properties.families.purity import evaluation_is_repeatable
from headcheck.properties.mistakes.recognisers.recogniser import DiagnosedMistake
from headcheck.properties.property import Property, Verdict
from headcheck.properties.terms.group import PropertyGroup
from headcheck.properties.violations.violation import SubmissionFailed

GROUPS = tuple(PropertyGroup)
"""the groups in the order of reports"""
T = TypeVar("T")


def explain_failures(
    live: LiveChecker,
    target: Target,
    settings: Settings,
    verdicts: Sequence[Verdict],
    searched: SearchResult | None = None,
) -> Explanation:
    """Return points, diagnosed mistakes and their consequences, examples, evidence, excerpts.

    Raises SubmissionFailed.
    """
    session, harness = live.session, live.harness
    found = () if searched is None else tuple(searched.found)
    for _ in session.iter_tries():
        faults: list[NoteRecord] = []
        with contextlib.suppress(SubmissionFailed):  # the verdicts stand, and are reported
            live.revive()
        diagnose = functools.partial(
            explain.diagnose_failures, session, harness, verdicts, settings.device
        )
        mistakes: Sequence[DiagnosedMistake] = _contain(faults, diagnose, ())
        exemplify = functools.partial(
            explain_with_examples,
            live,
            verdicts,
            mistakes,
            found,
            all_examples=settings.all_examples,
        )
        explained, shown = _contain(faults, exemplify, (Explained(), list(verdicts)))
        properties = record_properties(target.exercise, shown, settings.points, harness, searched)
        properties = explained.mark(properties, shown)
        named = explained.list_named(mistakes)
        find = functools.partial(explain.find_place, session, harness, shown)
        place: PlaceRecord | None = _contain(faults, find, None)
        describe = functools.partial(explain.record_diagnoses, session, named, harness.contract)
        diagnosis: Sequence[DiagnosisRecord] = _contain(faults, describe, [])
        besides = explained.structural and not mistakes
        if session.is_alive and not besides:  # else weights are right, or not what is wrong
            attach = functools.partial(
                evidence.attach_evidence, properties, shown, harness, mistakes
            )
            properties = _contain(faults, attach, properties)
        locations = list_locations(shown, diagnosis, place)
        collect = functools.partial(collect_excerpts, session, locations)
        source: Sequence[Excerpt] = _contain(faults, collect, [])
        apart = {v.property for v in shown} - explained.properties
        told = apart | set(_list_shown(shown, explained))
        listen = functools.partial(prints.attach_prints, properties, shown, told, live)
        properties = _contain(faults, listen, properties)
    record = None if searched is None else record_search(searched)
    all_faults = (*explained.faults, *faults)
    return Explanation(
        tuple(properties), tuple(diagnosis), tuple(source), place, record, all_faults
    )


def _contain(faults: list[NoteRecord], stage: Callable[[], T], otherwise: T) -> T:
    """Return the result of a stage; if headcheck fails there, `otherwise`, and add a note."""

    def report(text: str) -> None:
        faults.append(NoteRecord(fault.ERROR_KIND, text))

    return fault.contain(stage, otherwise, SubmissionFailed, SandboxError, report=report)


@dataclass(eq=False)
class ExampleSearch:
    """A search for the smallest cases of one submission's failures, made when needed."""

    live: LiveChecker
    verdicts: list[Verdict]
    finished: set[Property]
    """the properties that need no further search"""
    searched: Searched = field(default_factory=Searched)

    def explain(self, mistakes: Sequence[DiagnosedMistake]) -> Explained:
        """Return the consequences of mistakes; all other failures get a smallest case first."""
        contract = self.live.harness.contract
        while True:
            explained = explain_verdicts(contract, self.verdicts, mistakes)
            left = [v.property for v in self.verdicts if v.property not in explained.properties]
            if not self.shrink(left):
                return explained

    def shrink(self, wanted: Collection[Property]) -> bool:
        """Search for smallest cases of these failures; return whether any was new.

        The failures that are shown first are searched first, since all searches together try a
        limited number of cases.
        """
        todo = [
            verdict
            for verdict in self.verdicts
            if verdict.violation is not None
            and verdict.property in wanted
            and verdict.property not in self.finished
        ]
        found = {v.property: self._shrink(v) for v in sorted(todo, key=_get_rank)}
        self.verdicts = [found.get(verdict.property, verdict) for verdict in self.verdicts]
        self.finished |= set(found)
        return bool(todo)

    def _shrink(self, verdict: Verdict) -> Verdict:
        if not all(map(_repeats_itself, self.verdicts)):
            return verdict
        if any(map(has_side_effects, self.verdicts)):  # then it was checked alone, too
            self.live.harness.forget()
        search = functools.partial(self.live.shrink, verdict, self.searched)
        shrunk, self.searched = fault.contain(search, (verdict, self.searched), SandboxError)
        return shrunk


def explain_with_examples(
    live: LiveChecker,
    verdicts: Sequence[Verdict],
    mistakes: Sequence[DiagnosedMistake],
    searched: Iterable[Property] = (),
    *,
    all_examples: bool = False,
) -> tuple[Explained, list[Verdict]]:
    """Return the consequences of mistakes, and the verdicts, with smallest cases for those shown.

    The cases of `searched` properties are already as small as possible.
    """
    search = ExampleSearch(live, list(verdicts), set(searched))
    if all_examples:
        search.shrink([verdict.property for verdict in verdicts])
    explained = search.explain(mistakes)
    search.shrink(set(_list_shown(verdicts, explained)))
    return explained, search.verdicts


def _list_shown(verdicts: Sequence[Verdict], explained: Explained) -> Iterator[Property]:
    """Yield the consequences that are shown: the first one, and those with figures."""
    following = [v for v in verdicts if v.property in explained.properties]
    if explained.structural:
        example = [v for v in following if explained.is_shown_by(v)][:1]
    else:
        example = find_example(following, verdicts)
    yield from (verdict.property for verdict in example)
    yield from (verdicts[i].property for i in list_candidates(verdicts))


def find_example(following: Sequence[Verdict], verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the first consequence, in the group with the most consequences."""
    groups = Counter(verdict.property.group for verdict in verdicts)
    broken = Counter(verdict.property.group for verdict in following)
    ordered = sorted(following, key=_get_rank)
    shares = {group: broken[group] / count for group, count in groups.items()}
    return sorted(ordered, key=lambda v: -shares.get(v.property.group, 0.0))[:1]


def _repeats_itself(verdict: Verdict) -> bool:
    """Whether no verdict says that answers are random; random failures have no smallest case."""
    return verdict.property is not evaluation_is_repeatable or verdict.violation is None


def _get_rank(verdict: Verdict) -> int:
    return GROUPS.index(verdict.property.group)
