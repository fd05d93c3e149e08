"""The fork server: what a child is born with, and how server, children and grader end."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
import torch

from headcheck.grader.sandbox.grader_side.servers import SandboxError, ServerHandle
from headcheck.grader.sandbox.limits import Limits
from headcheck.properties.subject import CallOptions
from tests.grader.conftest import SandboxDriver

LOOP = "while True: pass"

# ----------------------------------------------------------------- what a child is born with


def test_child_environment_contains_none_of_ours(sandbox: SandboxDriver) -> None:
    canary = "HEADCHECK_TEST_CANARY"
    assert canary in os.environ
    names = sandbox.evaluate("sorted(os.environ)")
    assert "PATH" in names and "OMP_NUM_THREADS" in names
    assert not any(other in names for other in (canary, "PYTEST", "PYTHONPATH"))
    if os.geteuid() != 0:
        return  # only root can look into the server
    inherited = Path(f"/proc/{sandbox.server.process.pid}/environ").read_bytes().decode()
    assert "PATH" in inherited
    assert canary not in inherited and "PYTEST" not in inherited


def test_one_socket_is_open_and_no_other_file(sandbox: SandboxDriver) -> None:
    body = """
        found = []
        for fd in range(1000):
            try:
                found.append((fd, os.fstat(fd).st_mode >> 12))
            except OSError:
                pass
        raise ValueError(found)
    """
    device, socket = 0o2, 0o14
    found = [(0, device), (1, device), (2, device), (3, socket)]
    assert sandbox.get_failure(body).message == f"ValueError: {found}"


def test_there_is_one_thread(sandbox: SandboxDriver) -> None:
    tasks = Path(f"/proc/{sandbox.server.process.pid}/task")
    assert len(list(tasks.iterdir())) == 1
    assert sandbox.evaluate("torch.get_num_threads()") == "1"


def test_files_are_few_and_small(sandbox: SandboxDriver) -> None:
    limits = "[resource.getrlimit(w)[1] for w in (resource.RLIMIT_CORE, resource.RLIMIT_NOFILE)]"
    assert sandbox.evaluate(limits) == "[0, 64]"
    assert int(sandbox.evaluate("resource.getrlimit(resource.RLIMIT_FSIZE)[1]")) <= 16 << 20


def test_solutions_are_neither_loaded_nor_importable(sandbox: SandboxDriver) -> None:
    rooms = ("headcheck.reference", "headcheck.properties", "headcheck.exercises")
    loaded = f"[n for n, m in sys.modules.items() if m and n.startswith({rooms})]"
    assert sandbox.evaluate(loaded) == "[]"
    # The folder itself is an empty one, which Python takes for a package.
    for module in ("reference.attention", "properties.bounds.oracle", "exercises.catalogue"):
        failure = sandbox.get_failure(f"import headcheck.{module}")
        assert failure.message.startswith("ModuleNotFoundError")


def test_children_draw_the_same_random_numbers_so_that_verdicts_can_be_repeated(
    sandbox: SandboxDriver,
) -> None:
    drawn = []
    for _ in range(2):
        session, module = sandbox.open_with_body(
            "import random\nreturn torch.rand(4) + random.random()"
        )
        drawn.append(sandbox.call(module).outputs[0].tolist())
        session.close()
    assert drawn[0] == drawn[1]


def test_one_submission_does_not_see_another(sandbox: SandboxDriver) -> None:
    spoil = "import json\njson.dumps = torch.softmax = None\nreturn x"
    first, spoiler = sandbox.open_with_body(spoil)
    sandbox.call(spoiler)
    second, other = sandbox.open_with_body("return torch.softmax(x, -1)")
    assert sandbox.call(other).outputs[0].sum() == 1
    first.close()
    second.close()


def test_several_children_answer_side_by_side(sandbox: SandboxDriver) -> None:
    pairs = [sandbox.open_with_body(f"return {n} * x") for n in range(4)]
    outputs = [sandbox.call(module).outputs[0].tolist() for _, module in pairs]
    assert outputs == [[n * 1.0, n * 2.0] for n in range(4)]
    for session, _ in pairs:
        session.close()
    assert sandbox.wait_until_gone(sandbox.find_descendants())


def test_requests_are_answered_one_after_the_other(sandbox: SandboxDriver) -> None:
    child = sandbox.server.start_child(Limits())
    replies = [child.request("get_function", {"name": "nothing"}) for _ in range(3)]
    assert [(reply.id, reply.op) for reply in replies] == [(n, "raised") for n in (1, 2, 3)]
    child.close()
    child.close()  # again, for nothing


def test_tensors_cross_unchanged(sandbox: SandboxDriver) -> None:
    session, module = sandbox.open_with_body("return x")
    for x in (torch.rand(3, 4).T, torch.rand(2, 5, dtype=torch.float64), torch.tensor(1.5)):
        assert torch.equal(module.forward([x], CallOptions()).outputs[0], x)
    session.close()


def test_a_child_takes_milliseconds(sandbox: SandboxDriver) -> None:
    times = []
    for _ in range(5):
        began = time.perf_counter()
        child = sandbox.server.start_child(Limits())
        assert child.request("drop", {"handles": []}).op == "ok"
        times.append(time.perf_counter() - began)
        child.close()
    assert min(times) < 0.25


# ------------------------------------------------------------------------- how it ends


def test_keyboard_interrupt_reaches_only_the_grader(
    sandbox: SandboxDriver, capfd: pytest.CaptureFixture[str]
) -> None:
    session, module = sandbox.open_with_body("return 3 * x")
    for pid in {sandbox.server.process.pid} | sandbox.find_descendants():
        os.kill(pid, signal.SIGINT)
    time.sleep(0.1)
    assert sandbox.call(module).outputs[0].tolist() == [3.0, 6.0]
    assert sandbox.is_good()
    session.close()
    assert capfd.readouterr() == ("", "")


def test_a_closed_server_takes_its_children_along(own_sandbox: SandboxDriver) -> None:
    session, _ = own_sandbox.open_with_body(LOOP)
    child = own_sandbox.server.start_child(Limits())
    pids = own_sandbox.find_descendants() | {own_sandbox.server.process.pid}
    assert len(pids) == 3
    own_sandbox.server.close()
    assert own_sandbox.wait_until_gone(pids)
    with pytest.raises(SandboxError, match="the fork server is gone"):
        own_sandbox.server.start_child(Limits())
    child.close()
    session.close()


def test_killed_server_is_an_internal_error_and_never_a_verdict(
    own_sandbox: SandboxDriver,
) -> None:
    right, module = own_sandbox.open_with_body("return 2 * x")
    dying, sleeper = own_sandbox.open_with_body("time.sleep(60)")
    children = own_sandbox.find_descendants()
    assert len(children) == 2
    killer = threading.Timer(0.5, own_sandbox.server.process.kill)
    killer.start()
    with pytest.raises(SandboxError, match="the fork server is gone"):
        own_sandbox.call(sleeper)
    with pytest.raises(SandboxError, match="the fork server is gone"):
        own_sandbox.call(module)
    with pytest.raises(SandboxError, match="the fork server is gone"):
        dying.revive()
    right.close()
    dying.close()
    assert own_sandbox.wait_until_gone(children)


def test_everything_ends_when_the_grader_dies(sandbox: SandboxDriver) -> None:
    program = """
        import sys, time
        from headcheck.grader.sandbox.limits import Limits
        from headcheck.grader.sandbox.grader_side.servers import ServerHandle
        from headcheck.grader.sandbox.grader_side.session import Session
        server = ServerHandle().wait_until_ready()
        session = Session(server, b"def wanted(x):\\n    while True: pass", "py", Limits())
        session.load("wanted")
        print(server.process.pid, flush=True)
        time.sleep(60)
    """
    root = str(Path(__file__).resolve().parents[3])
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": root, "OMP_NUM_THREADS": "1"},
        text=True,
    ) as grader_process:
        assert grader_process.stdout is not None
        pid = int(grader_process.stdout.readline())
        pids = {pid} | sandbox.find_descendants(pid)
        assert len(pids) == 2
        grader_process.kill()
    assert sandbox.wait_until_gone(pids)


@pytest.mark.own_zygote
def test_a_server_that_does_not_start_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    with pytest.raises(SandboxError, match="the fork server did not start"):
        ServerHandle().wait_until_ready()
