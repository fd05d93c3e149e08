"""Workers: the same records in the same order, whatever becomes of a worker."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader.grading import worker_pool
from headcheck.grader.grading.settings import Settings
from headcheck.grader.grading.worker_pool import (
    Worker,
    WorkerPool,
    assign_processors,
    choose_worker_count,
    grade_all,
)
from headcheck.grader.reading.submission import Submission, find_submissions
from headcheck.grader.report.records import NOT_JUDGED, SubmissionRecord
from headcheck.grader.sandbox.grader_side import launch
from headcheck.grader.sandbox.grader_side.launch import ForkedProcess
from headcheck.grader.sandbox.grader_side.servers import SandboxError, ServerHandle

pytestmark = pytest.mark.own_zygote
EXERCISE = BY_SLUG["simplified_attention"]


@pytest.fixture(scope="module")
def server() -> Iterator[ServerHandle]:
    with ServerHandle() as there:
        yield there


@pytest.fixture
def found(tmp_path: Path) -> list[Submission]:
    """Five submissions: right, wrong, broken, crashing, right."""
    wrong = EXERCISE.solution.replace("softmax", "sigmoid").replace(", dim=-1", "")
    texts = (EXERCISE.solution, wrong, "def broken(:", "1 / 0", EXERCISE.solution)
    for i, text in enumerate(texts):
        (tmp_path / f"s{i}.py").write_text(text, encoding="utf-8")
    return find_submissions([str(tmp_path)])


def settings(jobs: int) -> Settings:
    return Settings(exercise=EXERCISE, jobs=jobs)


class Nothing(Submission):
    """What arrives as no submission at all."""

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return type(None), ()


def untimed(records: list[SubmissionRecord]) -> list[SubmissionRecord]:
    return [replace(record, seconds=0) for record in records]


def test_several_workers_give_the_same_results_as_one(
    server: ServerHandle, found: list[Submission]
) -> None:
    alone = [(s, untimed(records)) for s, records in grade_all(server, found, settings(1))]
    together = [(s, untimed(records)) for s, records in grade_all(server, found, settings(2))]
    assert together == alone
    assert [s for s, _ in together] == found
    assert [r[0].status for _, r in alone][:2] == ["passed", "failed"]


def worker_of(server: ServerHandle, processor: int | None = None) -> Worker:
    return Worker(settings(2), False, processor, server.zygote)


def forked(worker: Worker) -> ForkedProcess:
    assert worker.running is not None
    assert isinstance(worker.running.process, ForkedProcess)
    return worker.running.process


def test_a_worker_that_dies_is_replaced_and_nothing_is_lost(
    server: ServerHandle, found: list[Submission]
) -> None:
    worker = worker_of(server)
    try:
        before = untimed(worker.grade(found[0]))
        first = forked(worker)
        os.kill(first.pid, signal.SIGKILL)
        assert first.wait(10)
        assert untimed(worker.grade(found[0])) == before
    finally:
        worker.close()


def test_worker_is_a_new_interpreter_without_a_zygote(found: list[Submission]) -> None:
    worker = Worker(settings(2), trusted=False)
    try:
        assert worker.grade(found[0])[0].status == "passed"
        assert worker.running is not None
        assert isinstance(worker.running.process, BaseProcess)
    finally:
        worker.close()


def test_worker_keeps_the_user_and_folder_of_the_run(
    server: ServerHandle, found: list[Submission], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADCHECK_TEST_CANARY", "a secret")
    monkeypatch.chdir(found[0].path.parent)
    worker = worker_of(server)
    try:
        [record] = worker.grade(replace(found[0], path=Path("s0.py")))
        assert record.status == "passed"
        folder = Path("/proc", str(forked(worker).pid))
        assert folder.joinpath("cwd").resolve() == found[0].path.parent
    finally:
        worker.close()
    assert server.zygote.process is not None
    for pid in (server.zygote.process.pid, server.process.pid):
        assert b"CANARY" not in Path(f"/proc/{pid}/environ").read_bytes()


def test_no_worker_starts_after_the_zygote_died(found: list[Submission]) -> None:
    zygote = launch.start_zygote()
    assert zygote.process is not None
    zygote.process.kill()
    worker = Worker(settings(2), False, None, zygote)
    with pytest.raises(SandboxError, match="the fork server did not start"):
        worker.grade(found[0])
    worker.close()
    zygote.close()


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_worker_never_waits_for_a_process_that_was_not_started(found: list[Submission]) -> None:
    zygote = launch.start_zygote()
    assert zygote.process is not None
    worker = Worker(settings(2), False, None, zygote)
    zygote.process.kill()
    assert zygote.process.wait(10)
    before = descriptors()
    for _ in range(2):  # the second time it must not believe that the first left it a line
        said: list[BaseException] = []
        asking = threading.Thread(target=failing, args=(worker, found[0], said), daemon=True)
        asking.start()
        asking.join(20)
        assert not asking.is_alive(), "it waits for an answer that nobody will give"
        assert isinstance(said[0], SandboxError)
    assert descriptors() <= before, "what was meant for the worker is closed"
    zygote.close()


def failing(worker: Worker, handed_in: Submission, said: list[BaseException]) -> None:
    try:
        worker.grade(handed_in)
    except BaseException as error:
        said.append(error)


def test_worker_whose_fork_server_dies_is_replaced(
    server: ServerHandle, found: list[Submission]
) -> None:
    worker = worker_of(server)
    try:
        before = children()
        first = untimed(worker.grade(found[0]))
        mine = forked(worker)
        [own_server] = children() - before - {mine.pid}
        os.kill(own_server, signal.SIGKILL)
        assert untimed(worker.grade(found[0])) == first
        assert forked(worker) is not mine
    finally:
        worker.close()


def test_first_failure_ends_all_workers(server: ServerHandle, found: list[Submission]) -> None:
    """Whoever waits for another worker's answer hears at once that there will be no report."""
    slow, broken = worker_of(server), worker_of(server)
    crew = WorkerPool([slow, broken])
    started = slow._start()  # judges nothing, as nobody sends it anything more
    said: list[BaseException] = []
    waiting = threading.Thread(target=reading, args=(started.connection, said), daemon=True)
    waiting.start()
    crew.idle.get()
    broken.dismiss("memory ran out")
    with pytest.raises(SandboxError, match="memory ran out"):
        crew.grade(found[0])
    waiting.join(20)
    assert isinstance(said[0], EOFError | ConnectionError)
    with pytest.raises(SandboxError, match="memory ran out"):
        slow.grade(found[0])
    crew.close()


def reading(line: Connection, said: list[BaseException]) -> None:
    try:
        line.recv()
    except BaseException as error:
        said.append(error)


@pytest.mark.parametrize("answered", [False, True])
def test_worker_exits_quietly_when_its_grader_dies(
    answered: bool, server: ServerHandle, found: list[Submission], capfd: pytest.CaptureFixture[str]
) -> None:
    worker = worker_of(server)
    line = worker._start().connection
    line.send(found[0])
    # As when the process is killed while the worker judges, or before it has read the answer.
    assert line.poll(60 if answered else 0) is answered
    line.close()
    assert forked(worker).wait(60)
    worker.close()
    assert "Traceback" not in capfd.readouterr().err


def test_worker_without_a_sandbox_says_why(server: ServerHandle, found: list[Submission]) -> None:
    on_a_gpu = replace(settings(2), device="cuda")
    worker = Worker(on_a_gpu, False, None, server.zygote)
    with pytest.raises(SandboxError, match="the sandbox cannot confine the driver of cuda"):
        worker.grade(found[0])
    worker.close()


def test_submission_that_kills_every_worker_is_reported(
    server: ServerHandle, found: list[Submission], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = worker_of(server)
    monkeypatch.setattr(
        worker_pool, "WORKER_ENTRY_POINT", "builtins:max"
    )  # and that is all it does
    [record] = worker.grade(found[0])
    worker.close()
    assert record.status == NOT_JUDGED and record.score == 0
    assert record.error is not None and "every process that judged it was killed" in (
        record.error.message
    )


def test_internal_error_is_raised_in_the_starting_process(
    server: ServerHandle, found: list[Submission]
) -> None:
    worker = worker_of(server)
    try:
        with pytest.raises(
            AttributeError, match="'NoneType' object has no attribute 'display_path'"
        ):
            worker.grade(Nothing(Path(), "nothing"))
        assert worker.grade(found[0])[0].status == "passed"
    finally:
        worker.close()


def test_ending_a_run_early_ends_every_process(
    server: ServerHandle, found: list[Submission]
) -> None:
    before = children()
    run = grade_all(server, found, settings(2))
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


def test_closed_worker_pool_starts_no_worker(found: list[Submission]) -> None:
    crew = WorkerPool([Worker(settings(2), trusted=False)])
    crew.dismiss("the run was broken off")
    with pytest.raises(SandboxError, match="broken off"):
        crew.grade(found[0])


def test_workers_stay_on_processors_of_their_own_where_they_use_them_all(
    server: ServerHandle, found: list[Submission], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_pool, "list_processors", lambda: [2, 5])
    assert assign_processors(1) == [None]
    assert assign_processors(3) == [2, 5, 2]
    monkeypatch.undo()
    mine = worker_pool.list_processors()[-1]
    worker = worker_of(server, mine)
    before = children()
    try:
        worker.grade(found[0])
        new = children() - before
        assert len(new) == 2, "the worker and its fork server"
        assert [os.sched_getaffinity(pid) for pid in new] == [{mine}] * 2
    finally:
        worker.close()


def test_offline_processor_does_not_stop_the_run() -> None:
    before = os.sched_getaffinity(0)
    worker_pool.pin_to_processor(1023)
    assert os.sched_getaffinity(0) == before


def test_few_submissions_start_no_worker() -> None:
    assert (
        choose_worker_count(1) == choose_worker_count(worker_pool.MIN_SUBMISSIONS_PER_WORKER) == 1
    )
    assert 1 <= choose_worker_count(10_000) <= (os.cpu_count() or 1)
