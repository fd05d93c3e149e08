"""Who shares what: pairs of submissions with the passages that are alike. Pure functions.

What everybody was given is not compared, and neither is what many write: both say nothing of two.
The rest of a submission is its own. A pair is found by its fingerprints, and weighed by how much of
the smaller one's own words lies in passages of the other.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from grader.course.similar.winnowing import GRAM, hash_grams, winnow
from grader.reading.token_units import Unit

MAX_HOLDERS = 10
"""a passage that more students have is common; in a small class, what more than a third have"""
MIN_HOLDERS = 3
"""so many may have it in any class"""
MIN_SHARE = 0.6
"""from this part of the smaller one's own words on, a pair is worth a look"""
MIN_WORDS = 40
"""so many words must be alike: shorter answers are alike by necessity"""


@dataclass(frozen=True, eq=False)
class Document:
    """One file of one student, as words."""

    student: str
    file: str
    units: tuple[Unit, ...]
    source: tuple[str, str] = ("", "")
    """where its bytes are: the digest of the content, and its kind"""

    @cached_property
    def unit_hashes(self) -> tuple[list[int], ...]:
        """The grams of every unit."""
        return tuple(hash_grams(unit.words) for unit in self.units)

    @cached_property
    def all_hashes(self) -> frozenset[int]:
        """The grams of all units."""
        return frozenset(h for hashes in self.unit_hashes for h in hashes)

    @cached_property
    def normal_form(self) -> str:
        """The same for files that differ in names, comments, layout and order only."""
        text = "\n".join(sorted(" ".join(unit.words) for unit in self.units))
        return hashlib.sha256(text.encode()).hexdigest()

    def count_own_words(self, without: Set[int]) -> int:
        """How many words lie in a gram that is not left out."""
        return sum(
            len(_collect_covered_words([i for i, h in enumerate(hashes) if h not in without]))
            for hashes in self.unit_hashes
        )

    def compute_fingerprints(self, without: Set[int]) -> set[int]:
        """The fingerprints of what is not left out."""
        return {h for hashes in self.unit_hashes for h in winnow(hashes, without).values()}


@dataclass(frozen=True, slots=True)
class LineRange:
    """Some lines of a unit."""

    unit: str
    cell: int | None
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Passage:
    """A run of words that two have."""

    one: LineRange
    other: LineRange
    words: int


@dataclass(frozen=True, slots=True)
class Pair:
    """Two submissions that are alike, the smaller one first."""

    one: Document
    other: Document
    share: float
    """of the own words of the smaller one"""
    words: int
    passages: tuple[Passage, ...]


@dataclass(frozen=True, slots=True)
class IdenticalGroup:
    """Submissions that are the same but for what disguises."""

    documents: tuple[Document, ...]
    words: int


@dataclass(frozen=True, slots=True)
class SimilarSubmissions:
    """What is alike: the largest groups first, the pairs that are most alike first."""

    groups: tuple[IdenticalGroup, ...]
    pairs: tuple[Pair, ...]
    too_small: int
    """how many files have too little of their own to be compared"""


def find_similar(
    documents: Sequence[Document], given: Iterable[Document] = ()
) -> SimilarSubmissions:
    """Compare everybody with everybody else, without what was given to all."""
    base = frozenset(h for each in given for h in each.all_hashes)
    forms: dict[str, list[Document]] = defaultdict(list)
    for each in documents:
        forms[each.normal_form].append(each)
    some = [listed[0] for listed in forms.values() if listed[0].count_own_words(base) >= MIN_WORDS]
    common = _find_common_grams(some) - base
    left_out = base | common
    groups = [
        IdenticalGroup(tuple(forms[each.normal_form]), each.count_own_words(base))
        for each in some
        if len({document.student for document in forms[each.normal_form]}) > 1
    ]
    pairs = [
        pair
        for one, other in _find_candidates(some, left_out)
        if (pair := _compare_pair(one, other, left_out)).share >= MIN_SHARE
        and pair.words >= MIN_WORDS
    ]
    return SimilarSubmissions(
        tuple(sorted(groups, key=lambda g: (-len(g.documents), g.documents[0].student))),
        tuple(sorted(pairs, key=lambda p: (-p.share, -p.words, p.one.student, p.other.student))),
        len(documents) - sum(len(forms[each.normal_form]) for each in some),
    )


def _find_common_grams(documents: Sequence[Document]) -> frozenset[int]:
    """The grams that many have; mass copies of one file count once."""
    many = max(MIN_HOLDERS, min(MAX_HOLDERS, len(documents) // 3))
    counts = Counter(h for each in documents for h in each.all_hashes)
    return frozenset(h for h, count in counts.items() if count > many)


def _find_candidates(
    documents: Sequence[Document], left_out: Set[int]
) -> Iterator[tuple[Document, Document]]:
    """Pairs of different students that share enough fingerprints to be looked at."""
    prints = [each.compute_fingerprints(left_out) for each in documents]
    index: dict[int, list[int]] = defaultdict(list)
    for i, own in enumerate(prints):
        for h in own:
            index[h].append(i)
    shared = Counter(pair for holders in index.values() for pair in combinations(holders, 2))
    for (i, j), count in sorted(shared.items()):
        # Edges of passages have fingerprints of their own: half of what is asked for in the end.
        enough = count >= MIN_SHARE / 2 * min(len(prints[i]), len(prints[j]))
        if enough and documents[i].student != documents[j].student:
            yield documents[i], documents[j]


def _compare_pair(one: Document, other: Document, left_out: Set[int]) -> Pair:
    """How alike two are, seen from the one that has fewer words of its own."""
    one, other = sorted(
        (one, other), key=lambda d: (d.count_own_words(left_out), d.student, d.file)
    )
    runs = list(_find_shared_runs(one, other, left_out))
    words = sum(
        len(
            _collect_covered_words(
                [i for run in runs if run.unit == u for i in run.select_own_grams(hashes, left_out)]
            )
        )
        for u, hashes in enumerate(one.unit_hashes)
    )
    passages = tuple(run.make_passage(one, other) for run in runs)
    return Pair(one, other, words / (one.count_own_words(left_out) or 1), words, passages)


@dataclass(frozen=True, slots=True)
class _SharedRun:
    """Where in a unit of one document, and where in one of the other, the same grams begin."""

    unit: int
    start: int
    other_unit: int
    other_start: int
    grams: int

    def select_own_grams(self, hashes: Sequence[int], left_out: Set[int]) -> list[int]:
        """The grams of it that are not left out."""
        whole = range(self.start, self.start + self.grams)
        return [i for i in whole if hashes[i] not in left_out]

    def make_passage(self, one: Document, other: Document) -> Passage:
        words = self.grams + GRAM - 1
        return Passage(
            _make_line_range(one.units[self.unit], self.start, words),
            _make_line_range(other.units[self.other_unit], self.other_start, words),
            words,
        )


def _find_shared_runs(one: Document, other: Document, left_out: Set[int]) -> Iterator[_SharedRun]:
    """The longest runs of grams that both have, each place of the first once, in its order.

    A run begins with a gram that counts, and goes on over what is left out.
    """
    places: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for v, hashes in enumerate(other.unit_hashes):
        for j, h in enumerate(hashes):
            if h not in left_out:
                places[h].append((v, j))
    for u, hashes in enumerate(one.unit_hashes):
        i = 0
        while i < len(hashes):
            found = [
                (_count_common_prefix(hashes[i:], other.unit_hashes[v][j:]), -v, -j)
                for v, j in places.get(hashes[i], ())
            ]
            if not found:
                i += 1
                continue
            length, v, j = max(found)
            yield _SharedRun(u, i, -v, -j, length)
            i += length


def _count_common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def _collect_covered_words(starts: Sequence[int]) -> set[int]:
    """The words of the grams that begin there."""
    return {word for start in starts for word in range(start, start + GRAM)}


def _make_line_range(unit: Unit, start: int, words: int) -> LineRange:
    lines = unit.lines[start : start + words]
    return LineRange(unit.name, unit.cell, min(lines), max(lines))
