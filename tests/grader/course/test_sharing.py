"""Commands that grade the same submissions at once: nothing twice, nothing lost. A fake judge."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader.course import grading
from headcheck.grader.course.intake.gather import IntakeOptions, gather_submissions
from headcheck.grader.course.store import claims as claims_module
from headcheck.grader.course.store import manifest
from headcheck.grader.course.store.claims import Claims, open_claims
from headcheck.grader.course.store.database import StoreError, open_engine
from headcheck.grader.course.store.store import open_store
from headcheck.grader.grading import worker_pool
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.submission import Submission
from headcheck.grader.report.records import Report, from_json
from tests.commands import RIGHT
from tests.grader.course.test_course import forked

SETTINGS = Settings(exercise=BY_SLUG["causal_weights"])
WITHIN_S = 60.0


def grade(store_url: str, *folders: Path, chosen: Settings = SETTINGS) -> Report:
    with (
        open_store(store_url, create=True) as store,
        gather_submissions([str(each) for each in folders], IntakeOptions()) as intake,
    ):
        return grading.grade(store, intake, chosen, "week 1", attempts="latest", trusted=False)


def write_class(folder: Path, count: int, first: int = 0) -> Path:
    folder.mkdir()
    for i in range(first, first + count):
        (folder / f"s{i:02}.py").write_text(f"50 number {i}")
    return folder


class Gate:
    """A judge that says what it has in hand, and finishes nothing until the gate is open."""

    def __init__(self, store_url: str, fake_grader: Any, folder: Path) -> None:
        self.store_url, self.judge, self.folder = store_url, fake_grader, folder
        folder.mkdir()

    def judge_one_by_one(
        self, server: object, found: Any, chosen: Settings, *emit: Any
    ) -> Iterator[tuple[Submission, Any]]:
        for each in found:
            (self.folder / f"{os.getpid()} {each.path.stem}").touch()
            wait_for(lambda: (self.folder / "open").exists())
            yield from self.judge.grade(server, [each], chosen, *emit)

    def grade(self, *folders: Path) -> Report:
        """Grade a class into the store."""
        return grade(self.store_url, *folders)

    def start(self, count: int, *folders: Path) -> list[int]:
        """Processes that each grade the same class, once all have a file in hand."""
        machines = [forked(lambda: self.grade(*folders)) for _ in range(count)]
        wait_for(lambda: len(self.get_in_hand()) == count)
        return machines

    def get_in_hand(self) -> dict[int, str]:
        """What each process has taken, which is one file before the gate opens."""
        taken = [each.name.split() for each in self.folder.glob("* *")]
        assert len({pid for pid, _ in taken}) == len(taken) or (self.folder / "open").exists()
        return {int(pid): name for pid, name in taken}

    def open(self) -> None:
        (self.folder / "open").touch()


def wait_for(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < limit, "waited in vain"
        time.sleep(0.02)


@pytest.fixture
def gate(store_url: str, fake_grader: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gate:
    made = Gate(store_url, fake_grader, tmp_path / "gate")
    monkeypatch.setattr(worker_pool, "grade_all", made.judge_one_by_one)
    monkeypatch.setattr(grading, "POLL_S", 0.05)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # the killed ones leave folders
    return made


def wait_for_all(pids: Sequence[int]) -> None:
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * len(pids)


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


# ------------------------------------------------------------------------ processes


def test_two_of_four_are_killed_and_nothing_is_twice_and_nothing_lost(
    gate: Gate, tmp_path: Path
) -> None:
    folder = write_class(tmp_path / "class", 24)
    machines = gate.start(4, folder)
    in_hand = gate.get_in_hand()
    assert len(set(in_hand.values())) == 4, "each has another file"
    for pid in machines[:2]:
        kill(pid)
    gate.open()
    wait_for_all(machines[2:])
    texts = Counter(gate.judge.graded_texts)
    assert texts == Counter(f"50 number {i}" for i in range(24)), "each is judged once"
    with open_store(gate.store_url) as store:
        [only] = store.list_runs()
        assert len(store.load_judgement_ids(only.manifest.key)) == 24
        stored = store.load_graded_files("week 1")
        assert [each.student for each in stored] == [f"s{i:02}" for i in range(24)]
        assert all(len(each.records) == 1 for each in stored)
    again = gate.grade(folder)
    assert len(again.submissions) == 24 and Counter(gate.judge.graded_texts) == texts


def test_the_last_one_waits_for_a_file_in_hand_and_takes_it_over(
    gate: Gate, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = write_class(tmp_path / "class", 1)
    first = forked(lambda: gate.grade(folder))
    wait_for(lambda: len(gate.get_in_hand()) == 1)
    second = forked(lambda: gate.grade(folder))
    said = ""

    def is_told() -> bool:
        nonlocal said
        said += capfd.readouterr().err
        return "waiting for 1 that other commands are grading\n" in said

    wait_for(is_told)
    kill(first)
    gate.open()
    wait_for_all([second])
    assert said.count("waiting") == 1
    assert gate.judge.graded_texts == ["50 number 0"]


def test_everybody_s_report_is_on_the_whole_class(gate: Gate, tmp_path: Path) -> None:
    folder = write_class(tmp_path / "class", 6)

    def check() -> None:
        assert len(gate.grade(folder).submissions) == 6

    machines = [forked(check) for _ in range(3)]
    wait_for(lambda: len(gate.get_in_hand()) == 3)
    gate.open()
    wait_for_all(machines)
    assert len(gate.judge.graded_texts) == 6


def test_files_of_one_part_that_are_like_those_of_another_are_linked(
    gate: Gate, tmp_path: Path
) -> None:
    parts = [write_class(tmp_path / "one", 3), write_class(tmp_path / "two", 3, 3)]
    (parts[1] / "copy.py").write_text("50 number 0")
    machines = [forked(lambda part=part: gate.grade(part)) for part in parts]  # type: ignore[misc]
    wait_for(lambda: len(gate.get_in_hand()) == 2)
    gate.open()
    wait_for_all(machines)
    assert sorted(gate.judge.graded_texts) == [f"50 number {i}" for i in range(6)]
    with open_store(gate.store_url) as store:
        assert len(store.load_graded_files("week 1")) == 7
        assert len(store.list_runs()) == 1
    assert len(gate.grade(*parts).submissions) == 7
    assert len(gate.judge.graded_texts) == 6, "the whole course is graded already"


def test_what_the_machine_was_too_busy_for_is_tried_once_by_each_and_keeps_nobody_waiting(
    gate: Gate, tmp_path: Path
) -> None:
    folder = write_class(tmp_path / "class", 4)
    gate.judge.busy = {"s00", "s01", "s02", "s03"}
    machines = gate.start(2, folder)
    gate.open()
    wait_for_all(machines)
    assert max(Counter(gate.judge.graded_texts).values()) <= 2
    gate.judge.busy = set()
    assert [each.score for each in gate.grade(folder).submissions] == [50.0] * 4


def test_a_file_that_changes_meanwhile_keeps_nobody_waiting(gate: Gate, tmp_path: Path) -> None:
    folder = write_class(tmp_path / "class", 2)
    machines = gate.start(2, folder)
    for path in folder.iterdir():
        path.write_text("100 at last")
    gate.open()
    wait_for_all(machines)
    assert [each.score for each in gate.grade(folder).submissions] == [100.0] * 2


@pytest.mark.whole
def test_two_of_four_commands_are_killed(store_url: str, tmp_path: Path) -> None:
    """Real commands with real judges, two workers each."""
    folder = tmp_path / "class"
    folder.mkdir()
    for i in range(24):
        text = RIGHT if i % 3 else RIGHT.replace("softmax", "sigmoid").replace(", dim=-1", "")
        (folder / f"s{i:02}.py").write_text(f"{text}# {i}\n")
    command = [sys.executable, "-m", "headcheck", "grade", str(folder), "--store", store_url]
    command += ["--exercise", "simplified_attention", "--jobs", "2", "--format", "json"]
    logs = [tmp_path / f"log{i}" for i in range(4)]
    machines = []
    for log in logs:
        with log.open("w") as err, log.with_suffix(".json").open("w") as out:
            machines.append(subprocess.Popen(command, stdout=out, stderr=err))

    def list_graded() -> list[str]:
        lines = [line for log in logs for line in log.read_text().splitlines()]
        return [line.split()[1] for line in lines if line[:1].isdigit()]

    wait_for(lambda: len(list_graded()) >= 6)
    for machine in machines[:2]:
        machine.kill()
        machine.wait()
    assert [machine.wait() for machine in machines[2:]] == [1, 1]
    assert max(Counter(list_graded()).values()) == 1, "what is told is saved"
    for log in logs[2:]:
        report = from_json(log.with_suffix(".json").read_bytes())
        assert [each.student for each in report.submissions] == [f"s{i:02}" for i in range(24)]
        assert {each.status for each in report.submissions[1:3]} == {"passed"}
        assert not any(each.error for each in report.submissions)
    with open_store(store_url) as store:
        [only] = store.list_runs()
        assert len(store.load_judgement_ids(only.manifest.key)) == 24


# ------------------------------------------------------------------------ claims


def test_a_content_that_was_judged_before_it_was_announced_is_not_taken(
    store_url: str, tmp_path: Path, fake_grader: Any
) -> None:
    """Another command may save a judgement after this one has looked for it."""
    folder = write_class(tmp_path / "class", 2)
    grade(store_url, folder)
    with open_store(store_url) as store:
        key = store.list_runs()[0].manifest.key
        judged = list(store.load_judgement_ids(key))
        with open_claims(store.engine, key) as claims:
            claims.announce([*judged, ("other", "py")])
            assert (claims.take(), claims.take()) == (("other", "py"), None)
            assert claims.waiting == {}


def take_elsewhere(store_url: str, contents: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """What another process can take at the moment; it gives everything back."""
    reading, writing = os.pipe()

    def take() -> None:
        with open_engine(store_url) as engine, open_claims(engine, "key") as claims:
            claims.announce(contents)
            taken = [each[0] for each in iter(claims.take, None)]
            os.write(writing, " ".join(taken).encode())

    assert os.waitpid(forked(take), 0)[1] == 0
    os.close(writing)
    said = os.read(reading, 1 << 12).decode()
    os.close(reading)
    return [(each, "py") for each in said.split()]


def test_claims_are_taken_finished_and_left_to_others(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims_module, "BATCH", 2)
    wanted = [(f"c{i}", "py") for i in range(5)]
    with open_engine(store_url, create=True) as engine, open_claims(engine, "key") as claims:
        claims.announce(wanted)
        assert [claims.take(), claims.take(), claims.take()] == wanted[:3]
        assert take_elsewhere(store_url, wanted) == wanted[3:]
        claims.finish(wanted[1])
        assert [claims.take(), claims.take(), claims.take()] == [*wanted[3:], None]
        assert take_elsewhere(store_url, wanted[3:]) == []
        claims.release()
        assert set(take_elsewhere(store_url, wanted)) == set(wanted)
        assert_kinds_differ(claims)
    assert len(take_elsewhere(store_url, wanted)) == 5, "the context leaves no lock"


def assert_kinds_differ(claims: Claims) -> None:
    """Equal bytes may be of two kinds."""
    both = [("same", "py"), ("same", "ipynb")]
    claims.announce(both)
    assert [claims.take(), claims.take()] == both


def test_a_store_in_memory_has_no_file_of_locks() -> None:
    with open_engine("sqlite://") as engine, open_claims(engine, "key") as claims:
        claims.announce([("c", "py")])
        assert claims.take() == ("c", "py")
        claims.finish(("c", "py"))


def test_tasks_of_other_settings_are_others(store_url: str) -> None:
    base = manifest.build_manifest(SETTINGS)
    other = replace(base, seed=1)
    with (
        open_engine(store_url, create=True) as engine,
        open_claims(engine, base.key) as one,
        open_claims(engine, other.key) as two,
    ):
        for each in (one, two):
            each.announce([("c", "py")])
            assert each.take() == ("c", "py")


def test_a_file_of_locks_that_cannot_be_opened_is_a_line(tmp_path: Path) -> None:
    store = tmp_path / "c.db"
    (tmp_path / "c.db-locks").mkdir()
    with (
        open_engine(str(store), create=True) as engine,
        pytest.raises(StoreError, match=r"c\.db-locks: cannot be locked: Is a directory; use a"),
        open_claims(engine, "key"),
    ):
        pass
