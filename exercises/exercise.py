"""An exercise: a contract, a statement, a solution, and the points of its properties."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from headcheck.properties.contracts.contract import Contract
from headcheck.properties.listing.summary import PropertySummary, select_summaries
from headcheck.properties.terms.case import Case
from headcheck.properties.terms.depth import Depth
from headcheck.properties.terms.group import PropertyGroup

if TYPE_CHECKING:  # imported where needed, so that listing exercises does not import torch
    from headcheck.properties.property import Property

    CasePlan = Mapping[Property, tuple[Case, ...]]

LIST_ITEM_START = re.compile(r"^\d+\. ", re.MULTILINE)
"""the beginning of an item of a list in Markdown"""

DEFAULT_POINTS: Mapping[PropertyGroup, float] = {
    PropertyGroup.CONTRACT: 5,
    PropertyGroup.VALUES: 40,
    PropertyGroup.MASK: 20,
    PropertyGroup.CACHE: 20,
    PropertyGroup.WEIGHTS: 10,
    PropertyGroup.SCALE: 10,
    PropertyGroup.HEADS: 15,
    PropertyGroup.GRADIENTS: 10,
    PropertyGroup.DROPOUT: 10,
    PropertyGroup.PURITY: 5,
    PropertyGroup.BATCH: 5,
    PropertyGroup.PRECISION: 5,
    PropertyGroup.DEVICE: 2,
    PropertyGroup.INITIALISATION: 3,
}
"""The points of the groups if an exercise does not state them; groups without properties get none.
"""


MAX_MESSAGE = 1000
"""the most characters of a message; without a limit a quoted file or name could make it huge"""


class BadContract(ValueError):
    """A folder does not hold a valid exercise. The message names the file, the line and the remedy.

    The message quotes the file, which may be a stranger's, so it has one line and no control
    characters.
    """

    def __init__(self, text: str) -> None:
        if len(text) > MAX_MESSAGE:
            text = f"{text[: MAX_MESSAGE // 4 * 3]} … {text[-MAX_MESSAGE // 5 :]}"
        shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
        super().__init__(shown.replace("##[", "#\\x23["))


@dataclass(frozen=True, eq=False)
class Exercise:
    """A task for a student. There is one object per exercise."""

    slug: str
    title: str
    contract: Contract
    folder: Path
    builds_on: tuple[str, ...] = ()
    """the slugs of the exercises that come before it"""
    aliases: tuple[str, ...] = ()
    """other prefixes that the names of answers to this exercise may have"""
    points: Mapping[PropertyGroup, float] = field(default_factory=dict)
    """the points of groups, where they differ from `DEFAULT_POINTS`"""
    cases: int = 24
    """the largest number of cases for one property"""
    by_hand: bool = False
    """whether calling torch's own attention functions is forbidden"""
    limits: Mapping[str, float] = field(default_factory=dict)
    """resource limits where they differ from the usual: fields of the grader's `Limits`"""
    source: str = ""
    """the text of its contract file; see `exercises.contract_file`"""
    depth: Depth = Depth.THOROUGH
    """how much is asked of an answer"""

    def __reduce__(self) -> tuple[Callable[..., Exercise], tuple[Path, str, Depth]]:
        """Pickle the folder and the text, so that the receiver also has one object per exercise."""
        return _unpickle, (self.folder, self.source, self.depth)

    def at(self, depth: Depth) -> Exercise:
        """Return this exercise with the properties and cases of a depth: one object for each."""
        return self if depth is self.depth else self._other_depth

    @cached_property
    def _other_depth(self) -> Exercise:
        """The same exercise at the other depth."""
        other = Depth.USUAL if self.depth is Depth.THOROUGH else Depth.THOROUGH
        asked = replace(self, depth=other)
        vars(asked)["_other_depth"] = self
        return asked

    @cached_property
    def properties(self) -> tuple[Property, ...]:
        """The properties asked at this depth: they make sense for the contract and are not waived.

        Raises BadContract if a waived property does not exist or is a prerequisite of points.
        """
        from headcheck.properties import families

        names = {each.name for each in self.summaries}
        applying = (each for each in families.ALL if each.name in names)
        return tuple(each for each in applying if each.usual or self.depth is Depth.THOROUGH)

    @cached_property
    def summaries(self) -> tuple[PropertySummary, ...]:
        """The summaries of `properties`, which need no torch, in the same order.

        Raises BadContract as `properties` does.
        """
        from headcheck.exercises.contract_checks import find_wrongly_waived
        from headcheck.exercises.contract_file import make_place, refuse

        refuse(find_wrongly_waived(self.contract), make_place(self))
        applying = select_summaries(self.contract)
        return tuple(each for each in applying if each.name not in self.contract.waived)

    @cached_property
    def planned(self) -> dict[tuple[int, str], CasePlan]:
        """The known cases by seed and device, perhaps from an earlier process."""
        return {}

    def plan_cases(self, seed: int = 0, device: str = "cpu") -> CasePlan:
        """Return the cases on which each property is checked: the same for every submission.

        The seed determines their random numbers; sizes and options are always the same.
        """
        if (seed, device) not in self.planned:
            self.planned.setdefault((seed, device), self._select_cases(seed, device))
        return self.planned[seed, device]

    def _select_cases(self, seed: int, device: str) -> CasePlan:
        from headcheck.properties.cases.case_set import generate_case_set
        from headcheck.properties.cases.reseeding import reseed_cases

        published = generate_case_set(self.contract, self.cases)
        reseeded = reseed_cases(self.contract, published, seed, self.slug)
        cases = [replace(case, device=device) for case in reseeded]
        return {
            prop: prop.select_cases(self.contract, cases, self.depth) for prop in self.properties
        }

    @cached_property
    def prerequisite(self) -> Property:
        """The property without which nothing earns points: a stub satisfies many others."""
        return next(each for each in self.properties if each.name == self.prerequisite_name)

    @property
    def prerequisite_name(self) -> str:
        """The name of the prerequisite."""
        from headcheck.exercises.contract_checks import PREREQUISITES

        names = {each.name for each in self.summaries}
        return next(name for name in PREREQUISITES if name in names)

    def get_points(self, group: PropertyGroup) -> float:
        """Return the points of a group."""
        return self.points.get(group, DEFAULT_POINTS[group])

    @property
    def is_ours(self) -> bool:
        """Whether the exercise comes with headcheck, which then needs only its slug."""
        return self.folder.parent == Path(__file__).resolve().parent

    @property
    def statement(self) -> str:
        """The text that the student reads, as Markdown."""
        return self._read("statement.md")

    @property
    def hints(self) -> tuple[str, ...]:
        """The items of the numbered list in `hints.md`; each reveals more than the one before."""
        text = self._read("hints.md")
        items = LIST_ITEM_START.split(text)[1:]
        return tuple(textwrap.dedent(f"   {item}").strip() for item in items)

    @property
    def has_solution(self) -> bool:
        """Whether its folder has a solution; copies for students may lack it."""
        return (self.folder / "solution.py").is_file()

    @property
    def solution(self) -> str:
        """A correct answer, from which the starters are made: see `exercises.starter`."""
        return self._read("solution.py")

    def _read(self, name: str) -> str:
        try:
            return (self.folder / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            text = "there is no such file, and this needs it: write it"
            raise BadContract(f"{self.folder / name}, line 1: {text}") from None


def _unpickle(folder: Path, source: str, depth: Depth) -> Exercise:
    from headcheck.exercises.contract_file import read_exercise

    return read_exercise(folder, source).at(depth)
