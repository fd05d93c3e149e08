"""Find pairs of similar submissions and the passages that they share. Pure functions.

Handouts and code that many students write are not compared, because they say nothing about two
students. The rest of a submission is its own. A pair is found by shared fingerprints and rated by
the share of the smaller document's own words that lies in passages of the other.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from headcheck.grader.course.similar.winnowing import GRAM, hash_grams, winnow
from headcheck.grader.reading.token_units import Unit

MAX_HOLDERS = 10
"""a passage in more documents than this is common; in a small class, one in more than a third"""
MIN_HOLDERS = 3
"""a passage in at most this many documents is never common"""
MIN_SHARE = 0.6
"""the least share of the smaller document's own words at which a pair is reported"""
MIN_WORDS = 40
"""the least number of similar words: shorter answers are necessarily alike"""


@dataclass(frozen=True, eq=False)
class Document:
    """One student's file as words."""

    student: str
    file: str
    units: tuple[Unit, ...]
    source: tuple[str, str] = ("", "")
    """the key of the document's content: digest and kind"""

    @cached_property
    def unit_hashes(self) -> tuple[list[int], ...]:
        """The grams of each unit."""
        return tuple(hash_grams(unit.words) for unit in self.units)

    @cached_property
    def all_hashes(self) -> frozenset[int]:
        """The grams of all units."""
        return frozenset(h for hashes in self.unit_hashes for h in hashes)

    @cached_property
    def normal_form(self) -> str:
        """A digest that ignores names, comments, layout and order."""
        text = "\n".join(sorted(" ".join(unit.words) for unit in self.units))
        return hashlib.sha256(text.encode()).hexdigest()

    def count_own_words(self, without: Set[int]) -> int:
        """Count the words in grams that are not left out."""
        return sum(
            len(_collect_covered_words([i for i, h in enumerate(hashes) if h not in without]))
            for hashes in self.unit_hashes
        )

    def compute_fingerprints(self, without: Set[int]) -> set[int]:
        """Return the fingerprints of grams that are not left out."""
        return {h for hashes in self.unit_hashes for h in winnow(hashes, without).values()}


@dataclass(frozen=True, slots=True)
class LineRange:
    """A range of lines in a unit."""

    unit: str
    cell: int | None
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Passage:
    """A run of words shared by two documents."""

    one: LineRange
    other: LineRange
    words: int


@dataclass(frozen=True, slots=True)
class Pair:
    """Two similar submissions, the smaller one first."""

    one: Document
    other: Document
    share: float
    """the similar part of the smaller document's own words"""
    words: int
    passages: tuple[Passage, ...]


@dataclass(frozen=True, slots=True)
class IdenticalGroup:
    """Submissions that differ at most in names, comments, layout and order."""

    documents: tuple[Document, ...]
    words: int


@dataclass(frozen=True, slots=True)
class SimilarSubmissions:
    """The similar submissions: the largest groups first, the most similar pairs first."""

    groups: tuple[IdenticalGroup, ...]
    pairs: tuple[Pair, ...]
    too_small: int
    """the number of files with too few words of their own"""


def find_similar(
    documents: Sequence[Document], handouts: Iterable[Document] = ()
) -> SimilarSubmissions:
    """Compare all documents with each other, without the parts that are in the handouts."""
    base = frozenset(h for each in handouts for h in each.all_hashes)
    forms: dict[str, list[Document]] = defaultdict(list)
    for each in documents:
        forms[each.normal_form].append(each)
    some = [listed[0] for listed in forms.values() if listed[0].count_own_words(base) >= MIN_WORDS]
    common = _find_common_grams(some) - base
    left_out = base | common
    groups = [
        IdenticalGroup(tuple(forms[each.normal_form]), each.count_own_words(base))
        for each in some
        if len({same.student for same in forms[each.normal_form]}) > 1
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
    """Return the grams of many documents; copies of the same file count once."""
    many = max(MIN_HOLDERS, min(MAX_HOLDERS, len(documents) // 3))
    counts = Counter(h for each in documents for h in each.all_hashes)
    return frozenset(h for h, count in counts.items() if count > many)


def _find_candidates(
    documents: Sequence[Document], left_out: Set[int]
) -> Iterator[tuple[Document, Document]]:
    """Yield pairs of different students' documents that share enough fingerprints."""
    prints = [each.compute_fingerprints(left_out) for each in documents]
    index: dict[int, list[int]] = defaultdict(list)
    for i, own in enumerate(prints):
        for h in own:
            index[h].append(i)
    shared = Counter(pair for holders in index.values() for pair in combinations(holders, 2))
    for (i, j), count in sorted(shared.items()):
        # Only half of the final share: the edges of a passage have fingerprints of their own.
        enough = count >= MIN_SHARE / 2 * min(len(prints[i]), len(prints[j]))
        if enough and documents[i].student != documents[j].student:
            yield documents[i], documents[j]


def _compare_pair(one: Document, other: Document, left_out: Set[int]) -> Pair:
    """Compare two documents from the side of the one with fewer words of its own."""
    one, other = sorted(
        (one, other), key=lambda d: (d.count_own_words(left_out), d.student, d.file)
    )
    runs = list(_find_shared_runs(one, other, left_out))
    words = 0
    for unit, hashes in enumerate(one.unit_hashes):
        own = [run.select_own_grams(hashes, left_out) for run in runs if run.unit == unit]
        words += len(_collect_covered_words([i for starts in own for i in starts]))
    passages = tuple(run.make_passage(one, other) for run in runs)
    return Pair(one, other, words / (one.count_own_words(left_out) or 1), words, passages)


@dataclass(frozen=True, slots=True)
class _SharedRun:
    """A run of equal grams: its unit and start in each of two documents, and its length."""

    unit: int
    start: int
    other_unit: int
    other_start: int
    grams: int

    def select_own_grams(self, hashes: Sequence[int], left_out: Set[int]) -> list[int]:
        """Return the grams of the run that are not left out."""
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
    """Yield the longest runs of shared grams, in the order of the first document, not overlapping.

    A run starts with a gram that is not left out, and may contain others that are.
    """
    positions: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for v, hashes in enumerate(other.unit_hashes):
        for j, h in enumerate(hashes):
            if h not in left_out:
                positions[h].append((v, j))
    for u, hashes in enumerate(one.unit_hashes):
        i = 0
        while i < len(hashes):
            runs = [
                (_count_common_prefix(hashes[i:], other.unit_hashes[v][j:]), -v, -j)
                for v, j in positions.get(hashes[i], ())
            ]
            if not runs:
                i += 1
                continue
            length, v, j = max(runs)
            yield _SharedRun(u, i, -v, -j, length)
            i += length


def _count_common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def _collect_covered_words(starts: Sequence[int]) -> set[int]:
    """Return the indices of the words in the grams that start at these indices."""
    return {word for start in starts for word in range(start, start + GRAM)}


def _make_line_range(unit: Unit, start: int, words: int) -> LineRange:
    lines = unit.lines[start : start + words]
    return LineRange(unit.name, unit.cell, min(lines), max(lines))
