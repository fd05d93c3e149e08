"""Real processes: however a submission ends, its property fails, and the next one is judged."""

import errno
import json
import os
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import pytest

from headcheck.grader.sandbox.grader_side.launch import wait_readable
from headcheck.grader.sandbox.grader_side.servers import NotConfined, SandboxError
from headcheck.grader.sandbox.grader_side.session import Session
from headcheck.grader.sandbox.limits import Limits
from headcheck.grader.sandbox.operations import MAX_PRINTED, PrintsReply
from headcheck.grader.sandbox.server_side.jail.confine import Jail
from headcheck.grader.sandbox.server_side.server import receive_request, start_child
from headcheck.properties.violations.violation import Status, SubmissionFailed
from tests.grader.conftest import SandboxDriver

# ----------------------------------------------------------------------- endless calls

DEAF = """
    for each in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(each, signal.SIG_IGN)
    while True: pass
"""
THREAD = """
    import threading
    thread = threading.Thread(target=time.sleep, args=(60,))
    thread.start()
    thread.join()
"""


ENDLESS = {
    "loop": "while True: pass",
    "loop in C": "10 ** 10**9",
    "giant sort": "sorted(range(10**8), key=lambda n: -n)",
    "sleep": "time.sleep(60)",
    "waits for a signal": "signal.pause()",
    "ignores signals": DEAF,
    "finally": "try:\n    while True: pass\nfinally:\n    return x",
    "thread": THREAD,
}


# The attacks in tests/hostile loop in C, sleep, and ignore signals in every run.
@pytest.mark.sampled("kind", ENDLESS, ["loop", "finally", "thread"])
def test_a_call_without_end_is_ended(sandbox: SandboxDriver, kind: str) -> None:
    began = time.monotonic()
    failure = sandbox.get_failure(ENDLESS[kind], Limits(call_s=1, memory=4 << 30))
    assert failure.status is Status.TIMED_OUT
    assert str(failure) == "took more than 1 s for one call: is there an endless loop?"
    assert time.monotonic() - began < 30


def test_a_definition_that_never_ends_is_ended_too(sandbox: SandboxDriver) -> None:
    text = b"n = 0\nwhile True: n += 1\ndef wanted(x): return x + n"
    session = Session(sandbox.server, text, "py", Limits(call_s=1))
    with pytest.raises(SubmissionFailed, match="endless loop") as caught:
        session.load("wanted")
    assert caught.value.status is Status.TIMED_OUT
    session.close()
    assert sandbox.is_good()


def test_time_is_limited_over_all_calls_too(sandbox: SandboxDriver) -> None:
    session, module = sandbox.open_with_body("time.sleep(0.8)\nreturn x", Limits(total_s=2))
    sandbox.call(module)
    time.sleep(1.5)  # what we do meanwhile is not held against it
    sandbox.call(module)
    with pytest.raises(SubmissionFailed, match="took more than 2 s in all") as caught:
        sandbox.call(module)
    assert caught.value.status is Status.TIMED_OUT
    with pytest.raises(SubmissionFailed, match="took more than 2 s in all"):
        session.request("get_function", {"name": "wanted"})
    session.close()


IGNORING = ["", "signal.signal(signal.SIGXCPU, signal.SIG_IGN)"]


@pytest.mark.sampled("ignored", IGNORING, IGNORING[1:])
def test_processor_time_is_limited_over_all_calls(sandbox: SandboxDriver, ignored: str) -> None:
    failure = sandbox.get_failure(f"{ignored}\nwhile True: pass", Limits(cpu_s=1, call_s=60))
    assert failure.status is Status.TIMED_OUT
    assert str(failure) == "used more than 1 s of processor time"


# ---------------------------------------------------------------------- sudden endings


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("os._exit(0)", "the process ended itself"),
        ("os._exit(1)", "the process ended itself"),
        ("raise KeyboardInterrupt", "the process ended itself"),
        ("import ctypes\nctypes.string_at(0)", "the process died (Segmentation fault)"),
        ("os.abort()", "the process died ("),
        ("os.kill(os.getpid(), signal.SIGKILL)", "PermissionError"),
        ("signal.raise_signal(signal.SIGKILL)", "PermissionError"),
        ("os.close(3)\nos._exit(0)", "the process ended itself"),
        ("os.close(3)\ntime.sleep(60)", "broke off the conversation"),
    ],
    ids=[
        "exit with 0",
        "exit with 1",
        "KeyboardInterrupt",
        "segmentation fault",
        "abort",
        "kills itself",
        "raises SIGKILL",
        "hangs up and ends",
        "hangs up and stays",
    ],
)
def test_a_process_that_ends_is_a_failure_of_that_call(
    sandbox: SandboxDriver, body: str, message: str
) -> None:
    failure = sandbox.get_failure(body)
    assert failure.status is Status.CRASHED
    assert message in str(failure)


@pytest.mark.parametrize("body", ["raise SystemExit", "sys.exit(0)", "quit()", "exit(1)"])
def test_leaving_by_an_exception_is_an_error_like_others(sandbox: SandboxDriver, body: str) -> None:
    session, module = sandbox.open_with_body(body)
    for _ in range(2):
        with pytest.raises(SubmissionFailed, match=r"SystemExit.* \(line 3\)") as caught:
            sandbox.call(module)
        assert caught.value.status is Status.CRASHED
    session.close()


def test_endless_recursion_is_reported_with_its_location(sandbox: SandboxDriver) -> None:
    failure = sandbox.get_failure("return wanted(x)")
    assert failure.status is Status.CRASHED
    assert failure.message.startswith("RecursionError: maximum recursion depth exceeded")
    assert failure.line == 3


def test_recursion_without_a_limit_ends(sandbox: SandboxDriver) -> None:
    body = "sys.setrecursionlimit(10**9)\ndef f(n): return max(map(f, [n + 1]))\nreturn f(0)"
    failure = sandbox.get_failure(body, Limits(memory=256 << 20))
    assert failure.status in (Status.CRASHED, Status.OUT_OF_MEMORY)


@pytest.mark.parametrize(
    "body",
    [
        "return bytearray(64 << 30)",
        "return torch.zeros(8 << 30)",
        "kept = [0]\nwhile True: kept += kept",
        "kept = []\nwhile True: kept.append(torch.ones(1 << 22))",
        "return x.expand(1 << 33, 2).clone()",
    ],
    ids=["bytes", "tensor", "list", "many tensors", "expanded"],
)
def test_out_of_memory_is_reported(sandbox: SandboxDriver, body: str) -> None:
    failure = sandbox.get_failure(body, Limits(memory=256 << 20))
    assert failure.status is Status.OUT_OF_MEMORY


# ------------------------------------------------------------------------ conversation


@pytest.mark.parametrize(
    "body",
    [
        r"os.write(3, b'\xff' * 100)",
        r"os.write(3, b'GET / HTTP/1.1\r\n\r\n')",
        r"os.write(3, struct.pack('<IQ', 2, 0) + b'{}')",
        r"os.write(3, struct.pack('<IQ', 20, 1 << 60))",
        "import pickle\nd = pickle.dumps(open)\nos.write(3, struct.pack('<IQ', len(d), 0) + d)",
    ],
    ids=["noise", "words", "empty header", "endless body", "pickle"],
)
def test_invalid_frame_closes_the_channel(sandbox: SandboxDriver, body: str) -> None:
    failure = sandbox.get_failure(body)
    assert failure.status is Status.CRASHED
    assert "broke off the conversation" in failure.message


@pytest.mark.parametrize(
    "header",
    [
        '{"id": 99, "op": "ok"}',
        '{"id": 4, "op": "passed"}',
        '{"id": 4, "op": "ok"}',
        '{"id": 4, "op": "ok", "meta": {"form": 3}}',
        '{"id": 4, "op": "ok", "meta": {"form": "x", "dtypes": [], "devices": []}}',
    ],
)
def test_replies_to_other_requests_are_rejected(sandbox: SandboxDriver, header: str) -> None:
    body = f"""
        head = {header!r}.encode()
        os.write(3, struct.pack("<IQ", len(head), 0) + head)
        time.sleep(60)
    """
    failure = sandbox.get_failure(body)
    assert failure.status is Status.CRASHED
    assert "answered something that was not asked" in failure.message


def test_unrequested_bytes_close_the_channel(sandbox: SandboxDriver) -> None:
    body = """
        import threading
        def chatter():
            time.sleep(0.1)
            os.write(3, b"and another thing")
        threading.Thread(target=chatter).start()
        return x
    """
    session, module = sandbox.open_with_body(body)
    sandbox.call(module)
    time.sleep(0.5)
    with pytest.raises(SubmissionFailed, match="broke off the conversation"):
        sandbox.call(module)
    with pytest.raises(SubmissionFailed, match="broke off the conversation"):  # and says it again
        sandbox.call(module)
    assert session.revive()
    assert not session.revive()
    session.close()


def test_exit_after_a_reply_is_no_failure(sandbox: SandboxDriver) -> None:
    """A child that was killed when it had answered said nothing that nobody asked for."""
    child = sandbox.server.start_child(Limits())
    assert child.request("drop", {"handles": []}).op == "ok"
    signal.pidfd_send_signal(child.pidfd, signal.SIGKILL)
    assert wait_readable(child.pidfd, 10) and wait_readable(child.socket.fileno(), 10)
    assert not child._has_unread_data()
    with pytest.raises(SubmissionFailed):
        child.request("drop", {"handles": []})
    assert child.killed_by_others


def test_late_server_report_blames_no_submission(own_sandbox: SandboxDriver) -> None:
    """Who killed a child is known from the child, not from how soon the server speaks of it."""
    child = own_sandbox.server.start_child(Limits())
    assert child.request("drop", {"handles": []}).op == "ok"
    server = own_sandbox.server.process.pid
    os.kill(server, signal.SIGSTOP)
    signal.pidfd_send_signal(child.pidfd, signal.SIGKILL)
    waking = threading.Timer(2.0, os.kill, (server, signal.SIGCONT))
    waking.start()
    with pytest.raises(SubmissionFailed):
        child.request("drop", {"handles": []})
    waking.join()
    assert child.killed_by_others


def test_failed_process_start_is_reported_and_the_server_continues(
    own_sandbox: SandboxDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's own code for a fork that fails, run here in its place."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    refusing = mock.Mock(spec=Jail)
    refusing.fork.side_effect = BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    def refuse() -> None:
        asked = receive_request(theirs)
        assert asked is not None
        data, fds = asked
        assert start_child(theirs, refusing, Limits(**json.loads(data)), *fds) is None
        for fd in fds:
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fstat(fd)

    with ThreadPoolExecutor(1) as thread, ours, theirs, monkeypatch.context() as patched:
        patched.setattr(own_sandbox.server, "control", ours)
        refused = thread.submit(refuse)
        with pytest.raises(NotConfined, match="no process for a submission: Resource temporarily"):
            own_sandbox.server.start_child(Limits())
        refused.result(20)
    assert own_sandbox.is_good()


def test_late_reply_is_not_used_for_the_next_request(
    own_sandbox: SandboxDriver,
) -> None:
    server = own_sandbox.server
    os.kill(server.process.pid, signal.SIGSTOP)
    server.control.settimeout(0.2)
    with pytest.raises(SandboxError, match="the fork server is gone"):
        server.start_child(Limits())
    os.kill(server.process.pid, signal.SIGCONT)
    with pytest.raises(SandboxError, match="the fork server is gone"):
        server.start_child(Limits())


def test_slow_trickle_of_bytes_gains_no_time(sandbox: SandboxDriver) -> None:
    body = """
        os.write(3, struct.pack("<IQ", 100, 0))
        while True:
            time.sleep(0.1)
            os.write(3, b" ")
    """
    assert sandbox.get_failure(body, Limits(call_s=1)).status is Status.TIMED_OUT


def test_an_answer_that_is_too_large_is_not_read(sandbox: SandboxDriver) -> None:
    failure = sandbox.get_failure("return torch.zeros(1 << 20)", Limits(reply=1 << 20))
    assert failure.status is Status.CRASHED
    assert "over the limit" in failure.message


def test_unsupported_dtype_is_reported(sandbox: SandboxDriver) -> None:
    failure = sandbox.get_failure("return x.to(torch.complex64)")
    assert failure.status is Status.CRASHED
    assert "a tensor of dtype complex64 cannot be sent" in failure.message


def test_of_forty_megabytes_of_prints_the_beginning_is_kept(
    sandbox: SandboxDriver, capfd: pytest.CaptureFixture[str]
) -> None:
    body = """
        for _ in range(8):
            print("p" * (1 << 20))
            print("e" * (1 << 20), file=sys.stderr)
            sys.__stdout__.write("o" * (1 << 20))
            os.write(1, b"1" * (1 << 20))
            os.write(2, b"2" * (1 << 20))
        return x
    """
    session, module = sandbox.open_with_body(body)
    sandbox.call(module)
    assert session.take_prints() == PrintsReply("p" * MAX_PRINTED, 8 * ((1 << 20) + 1))
    session.close()
    assert capfd.readouterr() == ("", "")


def test_nothing_can_be_read_from_standard_input(sandbox: SandboxDriver) -> None:
    assert sandbox.get_failure("return input()").message.startswith("EOFError")
