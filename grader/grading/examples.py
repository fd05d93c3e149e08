"""Explain failures, and shrink only those that are shown.

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

import functools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from headcheck.grader import fault
from headcheck.grader.batch.check import has_side_effects
from headcheck.grader.grading.consequences import Explained, explain_verdicts
from headcheck.grader.grading.evidence import list_candidates
from headcheck.grader.grading.live_checker import LiveChecker
from headcheck.grader.sandbox.grader_side.servers import SandboxError
from headcheck.properties.families.purity import evaluation_is_repeatable
from headcheck.properties.mistakes.recognisers.recogniser import DiagnosedMistake
from headcheck.properties.property import Property, Verdict
from headcheck.properties.terms.group import PropertyGroup

GROUPS = tuple(PropertyGroup)
"""the groups in the order of reports"""


@dataclass(eq=False)
class ExampleSearch:
    """A search for the smallest cases of one submission's failures, made when needed."""

    live: LiveChecker
    verdicts: list[Verdict]
    finished: set[Property]
    """the properties that need no further search"""

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
        search = functools.partial(self.live.shrink, verdict)
        return fault.contain(search, verdict, SandboxError)


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
