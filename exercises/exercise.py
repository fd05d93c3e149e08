"""What an exercise is: a contract, a statement, a solution, and what its claims are worth."""

from __future__ import annotations

import functools
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from properties.case import Case
from properties.contract import Contract
from properties.group import PropertyGroup

if TYPE_CHECKING:  # imported where they are needed: whoever only lists exercises does not wait
    from properties.property import Property

LIST_ITEM_START = re.compile(r"^\d+\. ", re.MULTILINE)
"""where an item of a list in Markdown begins"""

DEFAULT_POINTS: Mapping[PropertyGroup, float] = {
    PropertyGroup.CONTRACT: 10,
    PropertyGroup.VALUES: 30,
    PropertyGroup.MASK: 15,
    PropertyGroup.WEIGHTS: 10,
    PropertyGroup.SCALE: 10,
    PropertyGroup.HEADS: 10,
    PropertyGroup.GRADIENTS: 10,
    PropertyGroup.DROPOUT: 10,
    PropertyGroup.PURITY: 10,
    PropertyGroup.BATCH: 5,
    PropertyGroup.PRECISION: 5,
    PropertyGroup.DEVICE: 5,
    PropertyGroup.INITIALISATION: 5,
}
"""What the groups are worth, where an exercise has claims of that group and does not say else."""


@dataclass(frozen=True, eq=False)
class Exercise:
    """One thing that a student is asked to write. There is one object of each."""

    slug: str
    title: str
    contract: Contract
    folder: Path
    aliases: tuple[str, ...] = ()
    """beginnings of other names under which answers to this exercise are found"""
    points: Mapping[PropertyGroup, float] = field(default_factory=dict)
    """what a group is worth here, where it differs from `POINTS`"""
    cases: int = 24
    """how many different cases a property is tried on, at most"""
    by_hand: bool = False
    """whether torch's own attention functions may not be called"""
    limits: Mapping[str, float] = field(default_factory=dict)
    """what a submission may use here, where it differs: fields of the grader's `Limits`"""

    @cached_property
    def properties(self) -> tuple[Property, ...]:
        """Every invariant that makes sense for the contract."""
        from properties import families

        return families.select_for_contract(self.contract)

    @functools.cache  # noqa: B019  # exercises live as long as the process
    def plan_cases(self, seed: int = 0, device: str = "cpu") -> Mapping[Property, tuple[Case, ...]]:
        """The cases that each claim is tried on: the same for every submission.

        The seed chooses their numbers; their sizes and options are always the same.
        """
        from properties.cases.case_set import generate_case_set
        from properties.cases.reseeding import reseed_cases

        made = reseed_cases(
            self.contract, generate_case_set(self.contract, self.cases), seed, self.slug
        )
        there = [replace(case, device=device) for case in made]
        return {claim: claim.select_cases(self.contract, there) for claim in self.properties}

    @cached_property
    def prerequisite(self) -> Property:
        """The claim without which nothing earns a point: a stub keeps many by doing nothing."""
        from properties.families import values

        attends = values.the_output_depends_on_queries_keys_and_values
        return attends if attends in self.properties else values.it_equals_the_equation

    def get_points(self, group: PropertyGroup) -> float:
        """The points of a group."""
        return self.points.get(group, DEFAULT_POINTS[group])

    @property
    def statement(self) -> str:
        """What the student reads, as Markdown."""
        return (self.folder / "statement.md").read_text(encoding="utf-8")

    @property
    def hints(self) -> tuple[str, ...]:
        """What to think of when stuck, as Markdown, each a step further than the one before.

        `hints.md` is a numbered list.
        """
        text = (self.folder / "hints.md").read_text(encoding="utf-8")
        return tuple(
            textwrap.dedent(f"   {each}").strip() for each in LIST_ITEM_START.split(text)[1:]
        )

    @property
    def solution(self) -> str:
        """A correct answer, and the one source of the starter: see `exercises.starter`."""
        return (self.folder / "solution.py").read_text(encoding="utf-8")
