"""Explain failures in stages: each stage adds its findings, and no verdict depends on a stage.

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
from dataclasses import dataclass, field, replace

from headcheck.grader import fault
from headcheck.grader.grading import diagnosis, evidence, prints
from headcheck.grader.grading.attempts import has_side_effects
from headcheck.grader.grading.consequences import explain_verdicts
from headcheck.grader.grading.evidence import list_candidates
from headcheck.grader.grading.excerpts import collect_excerpts
from headcheck.grader.grading.infer import Target
from headcheck.grader.grading.live_checker import LiveChecker
from headcheck.grader.grading.recording import (
    Explained,
    Explanation,
    list_locations,
    record_verdicts,
)
from headcheck.grader.grading.search import SearchResult
from headcheck.grader.grading.settings import Settings
from headcheck.grader.report.records import DiagnosisRecord, NoteRecord
from headcheck.grader.sandbox.grader_side.servers import SandboxError
from headcheck.properties.check import Searched
from headcheck.properties.families.purity import evaluation_is_repeatable
from headcheck.properties.mistakes.recognisers.recogniser import DiagnosedMistake
from headcheck.properties.property import Property, Verdict
from headcheck.properties.terms.group import PropertyGroup
from headcheck.properties.violations.violation import SubmissionFailed

GROUPS = tuple(PropertyGroup)
"""the groups in the order of reports"""
Stage = Callable[[Explanation], Explanation]


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
    stages = _Stages(live, target, settings, searched)
    shown = stages.place, stages.describe, stages.attach_evidence, stages.quote, stages.listen
    for _ in live.session.iter_tries():
        recorded = stages.record(stages.find_causes(verdicts))
        found = functools.reduce(_contain, shown, recorded)
    return found


def name_mistakes(
    live: LiveChecker, target: Target, settings: Settings, verdicts: Sequence[Verdict]
) -> tuple[DiagnosisRecord, ...]:
    """Return the known mistakes that explain why properties failed. Raises SubmissionFailed."""
    stages = _Stages(live, target, settings)
    for _ in live.session.iter_tries():
        found = _contain(stages.find_causes(verdicts), stages.describe)
    return found.diagnosis


def _contain(found: Explanation, stage: Stage) -> Explanation:
    """Return what a stage makes of the findings; if headcheck fails there, only add a note."""
    faults: list[NoteRecord] = []

    def report(text: str) -> None:
        faults.append(NoteRecord(fault.ERROR_KIND, text))

    run = functools.partial(stage, found)
    found = fault.contain(run, found, SubmissionFailed, SandboxError, report=report)
    return replace(found, faults=(*found.faults, *faults))


@dataclass(frozen=True)
class _Stages:
    """The stages of one submission's explanation. Each returns the findings with its own added."""

    live: LiveChecker
    target: Target
    settings: Settings
    searched: SearchResult | None = None

    def find_causes(self, verdicts: Sequence[Verdict]) -> Explanation:
        """Find the mistakes, and the failures that follow from them, in a process that answers."""
        with contextlib.suppress(SubmissionFailed):  # the verdicts stand, and are reported
            self.live.revive()
        return functools.reduce(_contain, (self.diagnose, self.exemplify), Explanation(verdicts))

    def diagnose(self, found: Explanation) -> Explanation:
        given = self.live.session, self.live.harness, found.verdicts, self.settings.device
        return replace(found, mistakes=diagnosis.diagnose_failures(*given))

    def exemplify(self, found: Explanation) -> Explanation:
        smallest = () if self.searched is None else tuple(self.searched.found)
        given = self.live, found.verdicts, found.mistakes, smallest
        all_examples = self.settings.all_examples
        explained, verdicts = explain_with_examples(*given, all_examples=all_examples)
        faults = (*explained.faults, *found.faults)
        return replace(found, explained=explained, verdicts=verdicts, faults=faults)

    def record(self, found: Explanation) -> Explanation:
        given = self.target.exercise, self.settings.points, self.live.harness, self.searched
        return record_verdicts(found, *given)

    def place(self, found: Explanation) -> Explanation:
        given = self.live.session, self.live.harness, found.verdicts, found.mistakes
        return replace(found, place=diagnosis.find_place(*given))

    def describe(self, found: Explanation) -> Explanation:
        named = found.explained.list_named(found.mistakes)
        given = self.live.session, named, self.live.harness.contract, found.place
        return replace(found, diagnosis=tuple(diagnosis.record_diagnoses(*given)))

    def attach_evidence(self, found: Explanation) -> Explanation:
        besides = found.explained.structural and not found.mistakes
        if not self.live.session.is_alive or besides:
            return found  # weights are right, or not what is wrong
        given = found.properties, found.verdicts, self.live.harness, found.mistakes
        return replace(found, properties=tuple(evidence.attach_evidence(*given)))

    def quote(self, found: Explanation) -> Explanation:
        locations = list_locations(found.verdicts, found.diagnosis, found.place)
        return replace(found, source=tuple(collect_excerpts(self.live.session, locations)))

    def listen(self, found: Explanation) -> Explanation:
        apart = {v.property for v in found.verdicts} - found.explained.properties
        told = apart | set(_list_shown(found.verdicts, found.explained))
        printed = prints.attach_prints(found.properties, found.verdicts, told, self.live)
        return replace(found, properties=tuple(printed))


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
