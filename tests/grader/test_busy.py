"""A busy machine changes no verdict; where it prevents one, that is said, and tried again.

`pytest -m deep tests/grader/test_busy.py` judges a class alone and beside forty processes.
"""

import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.exercises.answers import list_answers
from headcheck.grader.grading.grade import grade_file
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.submission import find_submissions
from headcheck.grader.report.records import (
    BUSY_KIND,
    NOT_JUDGED,
    build_report,
    compute_exit_code,
    from_json,
)
from headcheck.grader.report.render import text
from headcheck.grader.sandbox import timing
from headcheck.grader.sandbox.grader_side.servers import ChildChannel, MachineBusy, ServerHandle
from headcheck.grader.sandbox.limits import Limits
from headcheck.grader.sandbox.timing import OutOfPatience
from headcheck.properties.violations.violation import SubmissionFailed
from tests.commands import RIGHT
from tests.crowd import alone_with, crowd
from tests.grader.conftest import SandboxDriver
from tests.interpreter import run_python

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has schedstat")
SLUG = "simplified_attention"
ENDLESS = "def simplified_attention(x):\n    while True: pass\n"
SLEEPER = "import time\ndef simplified_attention(x):\n    time.sleep(60)\n"
BALLOON = """
def simplified_attention(x):
    kept = []
    while True: kept.append(bytearray(1 << 26))
"""
QUICK = Limits(call_s=1.0, idle_s=1.5, total_s=5.0, memory=256 << 20)
"""the right answer uses 1.5 s: four on the wall, beside two others"""


def judge(server: ServerHandle, path: Path, limits: Limits = QUICK) -> tuple[str, float]:
    [handed_in] = find_submissions([str(path)])
    settings = Settings(exercise=BY_SLUG[SLUG], limits=limits)
    [record] = grade_file(server, handed_in, settings)
    return record.status, record.score / record.max_score


def test_right_and_endless_answers_end_as_alone_beside_busy_processes(tmp_path: Path) -> None:
    answers = {"right": RIGHT, "endless": ENDLESS, "sleeper": SLEEPER, "balloon": BALLOON}
    for name, source in answers.items():
        (tmp_path / f"{name}.py").write_text(source)
    with alone_with(2), ServerHandle() as server:
        found = {name: judge(server, tmp_path / f"{name}.py") for name in answers}
    assert found["right"] == ("passed", 1.0)
    assert found["endless"] == found["sleeper"] == ("timed_out", 0.0)
    assert found["balloon"] == ("out_of_memory", 0.0)


# --------------------------------------------------------------------------- no verdict


def _give_up(self: timing.ChildTimer) -> float:
    raise OutOfPatience


def test_what_gets_no_processor_is_not_judged(
    sandbox: SandboxDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ada.py"
    path.write_text(RIGHT)
    [handed_in] = find_submissions([str(path)])
    monkeypatch.setattr(timing.ChildTimer, "wait_more", _give_up)
    [record] = grade_file(sandbox.server, handed_in, Settings(exercise=BY_SLUG[SLUG]))
    assert (record.status, record.score, record.properties) == (NOT_JUDGED, 0.0, ())
    assert record.error is not None and record.error.kind == BUSY_KIND
    assert record.error.message == (
        "not judged: the machine was busy (its process got too little processor time to answer); "
        "give the same command again"
    )
    report = build_report([record])
    assert compute_exit_code(report) == 2
    assert "not judged: the machine was busy" in " ".join(text.render(report).split())


def test_a_process_that_is_killed_each_time_is_no_verdict(sandbox: SandboxDriver) -> None:
    session, _ = sandbox.open_with_body("return x")

    def try_on() -> None:
        for _ in session.iter_tries():
            session.revive()
            assert isinstance(session.child, ChildChannel)
            signal.pidfd_send_signal(session.child.pidfd, signal.SIGKILL)
            with pytest.raises(SubmissionFailed, match="died"):
                session.request("drop", {"handles": []})

    with pytest.raises(MachineBusy, match="was killed 3 times from outside"):
        try_on()
    session.close()


# ----------------------------------------------------------------------------- a class


def write_class(folder: Path) -> None:
    """Thirty answers to one exercise: its bank of right and wrong ones, and what never ends."""
    folder.mkdir()
    for kind in ("right", "wrong"):
        for number, answer in enumerate(list_answers(BY_SLUG[SLUG], kind)):
            (folder / f"{kind}{number:02}.py").write_text(answer.source)
    for name, source in (("endless", ENDLESS), ("sleeper", SLEEPER), ("balloon", BALLOON)):
        (folder / f"{name}.py").write_text(source)


def grade_class(folder: Path) -> list[object]:
    asked = ("--seed", "1", "--exercise", SLUG, "--format", "json", "--jobs", "2")
    end = run_python("-m", "headcheck", "grade", str(folder), *asked, OMP_NUM_THREADS="1")
    assert end.returncode == 1, end.stderr
    report = from_json(end.stdout)
    return [replace(each, seconds=0.0) for each in report.submissions]


@pytest.mark.deep
def test_a_class_beside_forty_processes_is_judged_as_alone(tmp_path: Path) -> None:
    write_class(tmp_path / "class")
    alone = grade_class(tmp_path / "class")
    with crowd(40):
        beside = grade_class(tmp_path / "class")
    assert len(alone) == 30
    assert beside == alone
