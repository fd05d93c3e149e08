"""Workers: the same records in the same order, whatever becomes of a worker."""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from exercises import BY_SLUG
from grader.judging.grading import Settings
from grader.machine import workers
from grader.machine.workers import Crew, Worker, fitting, judged, shared_out
from grader.report import SubmissionRecord
from grader.sandbox.process import SandboxError, Server
from grader.submission import Submission, find

EXERCISE = BY_SLUG["simplified_attention"]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as there:
        yield there


@pytest.fixture
def found(tmp_path: Path) -> list[Submission]:
    """Five submissions: right, wrong, broken, crashing, right."""
    wrong = EXERCISE.solution.replace("softmax", "sigmoid").replace(", dim=-1", "")
    texts = (EXERCISE.solution, wrong, "def broken(:", "1 / 0", EXERCISE.solution)
    for i, text in enumerate(texts):
        (tmp_path / f"s{i}.py").write_text(text, encoding="utf-8")
    return find([str(tmp_path)])


def settings(jobs: int) -> Settings:
    return Settings(exercise=EXERCISE, jobs=jobs)


def untimed(records: list[SubmissionRecord]) -> list[SubmissionRecord]:
    return [replace(record, seconds=0) for record in records]


def test_several_workers_give_what_one_gives(server: Server, found: list[Submission]) -> None:
    alone = [(s, untimed(records)) for s, records in judged(server, found, settings(1))]
    together = [(s, untimed(records)) for s, records in judged(server, found, settings(2))]
    assert together == alone
    assert [s for s, _ in together] == found
    assert [r[0].status for _, r in alone][:2] == ["passed", "failed"]


def test_a_worker_that_dies_is_replaced_and_nothing_is_lost(found: list[Submission]) -> None:
    worker = Worker(settings(2), trusted=False)
    try:
        before = untimed(worker.grade(found[0]))
        assert worker.process is not None and worker.process.pid is not None
        os.kill(worker.process.pid, signal.SIGKILL)
        worker.process.join()
        assert untimed(worker.grade(found[0])) == before
    finally:
        worker.end()


def test_a_worker_whose_examiner_is_gone_ends_without_a_word(found: list[Submission]) -> None:
    ours, theirs = workers.CONTEXT.Pipe()
    process = workers.CONTEXT.Process(
        target=workers.work, args=(theirs, Settings(), EXERCISE.slug, False), daemon=True
    )
    process.start()
    theirs.close()
    ours.send(found[0])
    ours.close()  # as when the process is killed, while the worker judges
    process.join(60)
    assert process.exitcode == 0


def test_a_worker_whose_last_answer_nobody_reads_ends_without_a_word(
    found: list[Submission], capfd: pytest.CaptureFixture[str]
) -> None:
    ours, theirs = workers.CONTEXT.Pipe()
    process = workers.CONTEXT.Process(
        target=workers.work, args=(theirs, Settings(), EXERCISE.slug, False), daemon=True
    )
    process.start()
    theirs.close()
    ours.send(found[0])
    assert ours.poll(60)
    ours.close()  # as when the process is killed before it has read it
    process.join(60)
    assert process.exitcode == 0
    assert "Traceback" not in capfd.readouterr().err


def test_what_kills_every_worker_is_said(
    found: list[Submission], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker(settings(2), trusted=False)
    monkeypatch.setattr(workers, "work", dies)
    with pytest.raises(SandboxError, match=r"s0\.py: every worker that judged it died"):
        worker.grade(found[0])
    worker.end()


def dies(*_: object) -> None:
    os._exit(1)


def test_a_fault_of_ours_is_raised_where_the_run_was_started(found: list[Submission]) -> None:
    worker = Worker(settings(2), trusted=False)
    try:
        with pytest.raises(AttributeError):
            worker.grade("no submission at all")  # type: ignore[arg-type]
        assert worker.grade(found[0])[0].status == "passed"
    finally:
        worker.end()


def test_ending_a_run_early_ends_every_process(server: Server, found: list[Submission]) -> None:
    before = children()
    run = judged(server, found, settings(2))
    next(run)
    assert children() - before
    run.close()
    limit = time.monotonic() + 10
    while children() - before and time.monotonic() < limit:
        time.sleep(0.05)
    assert not children() - before


def children() -> set[int]:
    """The processes below this one."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(entry.name)] = int(
                entry.joinpath("stat").read_text().rpartition(")")[2].split()[1]
            )
        except OSError:
            continue
    below, new = {os.getpid()}, {os.getpid()}
    while new := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= new
    return below - {os.getpid()}


def test_a_crew_that_was_dismissed_starts_nothing_new(found: list[Submission]) -> None:
    crew = Crew([Worker(settings(2), trusted=False)])
    crew.end()
    with pytest.raises(SandboxError, match="broken off"):
        crew.grade(found[0])


def test_workers_stay_on_processors_of_their_own_where_they_use_them_all(
    found: list[Submission], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "processors", lambda: [2, 5])
    assert shared_out(1) == [None]
    assert shared_out(3) == [2, 5, 2]
    monkeypatch.undo()
    mine = workers.processors()[-1]
    worker = Worker(settings(2), trusted=False, processor=mine)
    before = children()
    try:
        worker.grade(found[0])
        assert worker.process is not None and worker.process.pid is not None
        assert os.sched_getaffinity(worker.process.pid) == {mine}
        started = {pid for pid in children() - before if "sandbox.server" in command(pid)}
        assert [os.sched_getaffinity(pid) for pid in started] == [{mine}]
    finally:
        worker.end()


def command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


def test_a_processor_that_is_gone_is_no_reason_to_stop() -> None:
    before = os.sched_getaffinity(0)
    workers.stay_on(1023)
    assert os.sched_getaffinity(0) == before


def test_few_submissions_are_not_worth_a_worker() -> None:
    assert fitting(1) == fitting(workers.WORTH) == 1
    assert 1 <= fitting(10_000) <= (os.cpu_count() or 1)
