"""A cluster on this machine: a real scheduler, real worker processes, one of which is killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import headcheck
from headcheck.exercises import BY_SLUG
from headcheck.grader.grading.settings import Settings
from headcheck.grader.grading.worker_pool import grade_all
from headcheck.grader.reading.submission import Submission, find_submissions
from headcheck.grader.report.records import SubmissionRecord
from headcheck.grader.sandbox.grader_side.servers import SandboxError, ServerHandle

distributed: Any = pytest.importorskip(
    "distributed", reason="Dask is not installed: tox run -e cluster"
)
cluster: Any = pytest.importorskip("headcheck.grader.course.cluster")

# Dask's own sockets and loops, which it closes in its own time.
pytestmark = pytest.mark.filterwarnings("ignore")
EXERCISE = BY_SLUG["simplified_attention"]
ROOMS = str(Path(headcheck.__path__[0]).parent)
START_S = 120


@pytest.fixture
def found(tmp_path: Path) -> list[Submission]:
    """Submissions of all kinds, and one whose file is gone."""
    folder = tmp_path / "class"
    folder.mkdir()
    wrong = EXERCISE.solution.replace("softmax", "sigmoid").replace(", dim=-1", "")
    texts = (EXERCISE.solution, wrong, "def broken(:", "1 / 0", f"{EXERCISE.solution}\n# two\n")
    for i, text in enumerate(texts):
        (folder / f"s{i}.py").write_text(text, encoding="utf-8")
    listed = find_submissions([str(folder)])
    (folder / "s3.py").unlink()
    return listed


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a scheduler with two workers, each with one thread and a nanny."""
    folder = tmp_path_factory.mktemp("dask")
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": ROOMS,
        "OMP_NUM_THREADS": "1",
        "DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD": "spawn",
    }

    def started(*arguments: str) -> subprocess.Popen[bytes]:
        with (folder / f"{arguments[0]}.log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "distributed.cli.dask_" + arguments[0], *arguments[1:]],
                env=environment,
                cwd=folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    told = folder / "scheduler.json"
    scheduler = started(
        "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show",
        "--scheduler-file", str(told),
    )  # fmt: skip
    workers = started(
        "worker", "--scheduler-file", str(told), "--nworkers", "2", "--nthreads", "1",
        "--no-dashboard", "--local-directory", str(folder),
    )  # fmt: skip
    try:
        limit = time.monotonic() + START_S
        while not told.exists() and time.monotonic() < limit:
            time.sleep(0.1)
        with distributed.Client(scheduler_file=str(told), set_as_default=False) as client:
            client.wait_for_workers(2, timeout=START_S)
            yield client.scheduler.address
    finally:
        for process in (workers, scheduler):
            os.killpg(process.pid, signal.SIGTERM)
        for process in (workers, scheduler):
            process.wait(30)


def untimed(graded: list[tuple[Submission, list[SubmissionRecord]]]) -> list[Any]:
    return [(s, [replace(r, seconds=0.0) for r in records]) for s, records in graded]


SETTINGS = Settings(exercise=EXERCISE)


def test_cluster_gives_the_same_results_as_one_process(url: str, found: list[Submission]) -> None:
    with ServerHandle() as server:
        alone = untimed(list(grade_all(server, found, replace(SETTINGS, jobs=1))))
        level = server.isolation_level
    with cluster.Cluster(url, trusted=False) as place:
        assert place.rung == level
        together = untimed(list(grade_all(place, found, SETTINGS)))
    assert together == alone
    assert [s for s, _ in together] == found
    statuses = [(r[0].status, r[0].error and r[0].error.kind) for _, r in together]
    assert statuses == [
        ("passed", None),
        ("failed", None),
        ("not_tried", "syntax"),
        ("not_tried", "unreadable"),
        ("passed", None),
    ]


def test_a_course_is_graded_into_its_store(
    url: str, found: list[Submission], tmp_path: Path
) -> None:
    pytest.importorskip("sqlalchemy", reason="the extra course is not installed")
    from headcheck.grader.course import grading
    from headcheck.grader.course.intake.gather import IntakeOptions, gather_submissions
    from headcheck.grader.course.store.store import open_store

    folder = str(found[0].path.parent)
    with (
        open_store(str(tmp_path / "c.db"), create=True) as store,
        gather_submissions([folder], IntakeOptions()) as intake,
    ):
        given: dict[str, Any] = {"attempts": "latest", "trusted": False, "cluster": url}
        report = grading.grade(store, intake, SETTINGS, "week 1", **given)
        assert [r.status for r in report.submissions] == [
            "passed", "failed", "not_tried", "passed",
        ]  # fmt: skip
        assert report.sandbox is not None, "how well the workers confine is kept"
        assert grading.grade(store, intake, SETTINGS, "week 1", **given) == report, "nothing anew"


def test_a_worker_that_is_killed_loses_nothing(url: str, found: list[Submission]) -> None:
    with cluster.Cluster(url, trusted=False) as place:
        undisturbed = untimed(list(grade_all(place, found, SETTINGS)))
        pids = place.client.run(os.getpid)
        assert len(pids) == 2
        disturbed = []
        for i, graded in enumerate(grade_all(place, found, SETTINGS)):
            disturbed.append(graded)
            if i == 0:
                os.kill(next(iter(pids.values())), signal.SIGKILL)
        assert untimed(disturbed) == undisturbed
        place.client.wait_for_workers(2, timeout=START_S)
        assert set(place.client.run(os.getpid).values()) != set(pids.values()), "its nanny is there"


def test_fork_servers_end_with_the_run(url: str, found: list[Submission]) -> None:
    with cluster.Cluster(url, trusted=False) as place:
        list(grade_all(place, found[:1], SETTINGS))
        assert set(place.client.run(servers).values()) == {1}
    with distributed.Client(url, set_as_default=False) as client:
        assert set(client.run(servers).values()) == {0}


def servers() -> int:
    """How many fork servers a worker has."""
    from headcheck.grader.course.cluster import get_worker_state

    return int(get_worker_state().sandbox is not None)


def test_submission_that_kills_every_worker_is_reported(
    url: str, found: list[Submission], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "MAX_TRIES", 1)
    monkeypatch.setattr(cluster, "grade_submission", lambda *_: os._exit(1))
    with (
        cluster.Cluster(url, trusted=False) as place,
        pytest.raises(SandboxError, match=r"s0\.py: every worker that judged it died"),
    ):
        list(grade_all(place, found[:1], SETTINGS))


def test_workers_with_another_headcheck_are_refused(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        cluster, "get_grader_version", lambda: cluster.GraderVersion("other", "other")
    )
    with pytest.raises(SandboxError, match="another headcheck, or another torch"):
        cluster.Cluster(url, trusted=False).__enter__()


def test_missing_scheduler_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "CONNECT_S", 0.5)
    with pytest.raises(SandboxError, match="no scheduler of a Dask cluster"):
        cluster.Cluster("tcp://127.0.0.1:9", trusted=False)
    with pytest.raises(SandboxError, match="no scheduler of a Dask cluster"):
        cluster.Cluster("nonsense://x", trusted=False)


def test_cluster_without_workers_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "JOIN_S", 0.5)
    options = {"n_workers": 0, "processes": True, "dashboard_address": None, "host": "127.0.0.1"}
    with (
        distributed.LocalCluster(**options) as empty,
        pytest.raises(SandboxError, match="no worker has joined"),
    ):
        cluster.Cluster(empty.scheduler_address, trusted=False).__enter__()
