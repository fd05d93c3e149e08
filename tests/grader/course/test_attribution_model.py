"""Whatever students pack, nobody's file is anybody else's: every system, as Hypothesis draws it."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headcheck.grader.course.intake.gather import IntakeOptions, SubmittedFile, gather_submissions
from headcheck.grader.course.intake.layout_detection import AmbiguousLayout
from headcheck.grader.course.intake.roster import Roster
from tests.grader.course.downloads import (
    SYSTEMS,
    File,
    GeneratedHandIn,
    System,
    downloads,
    make_zip,
    write_files,
)

Fact = tuple[str, int, bool, str, str]
"""who handed in, which attempt it is, whether it is late, when, and whose the file says it is"""


def taken(
    downloads: Sequence[Sequence[File]], wanted: IntakeOptions, *, folder: bool
) -> tuple[object, set[Fact]]:
    """The layouts and the facts; or that whoever grades is asked."""
    with tempfile.TemporaryDirectory() as temporary:
        paths = [Path(temporary) / f"class{i}" for i in range(len(downloads))]
        if folder:
            for path, files in zip(paths, downloads, strict=True):
                write_files(files, path)
        else:
            paths = [path.with_suffix(".zip") for path in paths]
            for path, files in zip(paths, downloads, strict=True):
                path.write_bytes(make_zip(files))
        try:
            with gather_submissions([str(path) for path in paths], wanted) as found:
                return set(found.layouts), _checked(found.submitted_files)
        except AmbiguousLayout:
            return "asked", set()


def _checked(hand_ins: Sequence[SubmittedFile]) -> set[Fact]:
    """The facts; what could not be read is nobody's who handed in nothing else."""
    told: set[Fact] = set()
    for each in hand_ins:
        if each.submission is not None:
            told.add((*_place(each), each.submission.path.read_text()))
    assert {_place(each) for each in hand_ins} == {fact[:4] for fact in told}
    return told


def _place(hand_in: SubmittedFile) -> tuple[str, int, bool, str]:
    return hand_in.student.id, hand_in.attempt, hand_in.late, str(hand_in.submitted)


@pytest.fixture(autouse=True, scope="module")
def in_memory() -> Iterator[None]:
    """Thousands of small folders: where there is a file system in memory, they go there."""
    with pytest.MonkeyPatch.context() as patch:
        if os.access("/dev/shm", os.W_OK):
            patch.setattr("tempfile.tempdir", "/dev/shm")
        yield


every_system = pytest.mark.parametrize("system", SYSTEMS.values(), ids=list(SYSTEMS))


@every_system
@settings(max_examples=max(25, settings().max_examples // 3))
@given(data=st.data())
def test_archive_contents_never_decide_the_owner(system: System, data: st.DataObject) -> None:
    nothing_packed_matters(system, data)


@pytest.mark.deep
@every_system
@given(data=st.data())
def test_archive_contents_never_decide_the_owner_deep(system: System, data: st.DataObject) -> None:
    nothing_packed_matters(system, data)


def nothing_packed_matters(system: System, data: st.DataObject) -> None:
    """Layout, people, attempts and times are as when everybody hands in one harmless file."""
    folder = data.draw(st.booleans(), label="in a folder, not in an archive")
    backwards = data.draw(st.booleans(), label="the archive lists its members backwards")
    named = not system.known or data.draw(st.booleans(), label="layout is named")
    wanted = IntakeOptions(
        layout=system.layout if named else "auto",
        roster=system.people if data.draw(st.booleans(), label="roster") else Roster(),
        attempts=data.draw(st.sampled_from(("latest", "best")), label="attempts"),
    )
    sent = data.draw(downloads(system))
    listed = [system.lay_out(each)[:: -1 if backwards else 1] for each in sent]
    packed_so = taken(listed, wanted, folder=folder)
    twins = [[one.simplified for one in each] for each in sent]
    assert packed_so == taken([system.lay_out(each) for each in twins], wanted, folder=folder)
    if packed_so[0] != "asked":
        assert packed_so == ({system.layout}, expected(system, list(chain(*sent)), wanted))


def expected(system: System, sent: Sequence[GeneratedHandIn], wanted: IntakeOptions) -> set[Fact]:
    """What is held of these, said once more and otherwise."""
    held: set[Fact] = set()
    for student in {each.student for each in sent}:
        theirs = [each for each in sent if each.student == student]
        who = f"s{student}" if wanted.roster else system.handle(student)
        for attempt, each in enumerate(theirs, start=1):
            if wanted.attempts == "best" or each is theirs[-1]:
                late = each.late and system.layout == "canvas"
                timed = system.layout in ("gradescope", "nbgrader")
                time = f"2026-02-01 10:00:{each.number:02d}+00:00" if timed else "None"
                held.add((who, attempt, late, time, each.code.decode()))
    return held
