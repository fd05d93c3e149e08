"""Which rung a machine is on, what is said about it, and what follows from it."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from exercises import BY_SLUG
from grader import run
from grader.grading import worker_pool
from grader.grading.grade import Settings, grade
from grader.reading.submission import find
from grader.report.records import report_of, to_json, without_seconds
from grader.sandbox.grader_side.in_process import Unconfined
from grader.sandbox.grader_side.servers import SandboxError, Server, ended_of
from grader.sandbox.isolation import HELP, HOLDS, NEEDED, Layer, nothing, rung_of
from grader.sandbox.limits import Limits
from grader.sandbox.server_side.jail import landlock, probe

if TYPE_CHECKING:
    from tests.grader.conftest import Sandbox

RIGHT = """
import torch
def simplified_attention(x):
    return torch.softmax(x @ x.T, dim=-1) @ x
"""
SETTINGS = Settings(exercise=BY_SLUG["simplified_attention"])
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="forks and pidfds are Linux's")

# -------------------------------------------------------------------------- the record


@pytest.mark.parametrize(
    ("missing", "name"),
    [
        ((), "A"),
        ((Layer.NAMESPACES,), "B"),
        ((Layer.NAMESPACES, Layer.SCOPES), "B-"),
        ((Layer.SCOPES,), "B-"),
        ((Layer.LANDLOCK, Layer.SCOPES), "C"),
        ((Layer.SECCOMP,), "C"),
        ((Layer.NAMESPACES, Layer.SECCOMP), "C"),
        ((Layer.RLIMITS,), "C"),
        (tuple(Layer), "C"),
    ],
)
def test_the_rung_follows_from_what_is_missing(missing: tuple[Layer, ...], name: str) -> None:
    rung = rung_of(dict.fromkeys(missing, "because"))
    assert rung.name == name
    assert rung.confines == (name in NEEDED)
    assert set(rung.layers) == set(Layer) - set(missing)
    assert [m.layer for m in rung.missing] == list(missing)
    assert all(m.why == "because" and m.how for m in rung.missing)


def test_every_rung_and_layer_is_explained() -> None:
    assert list(HOLDS) == ["A", "B", "B-", "C", "D"]
    assert HELP.keys() == set(Layer)


def test_a_rung_says_what_it_is_in_one_line() -> None:
    confined = rung_of({Layer.NAMESPACES: "no"})
    assert confined.summary == "rung B: confined by landlock, scopes, seccomp, rlimits"
    for rung in (rung_of({Layer.SECCOMP: "no"}), nothing("no")):
        assert "NOT confined" in rung.summary and "--trusted" in rung.summary
        assert "--trusted" in rung.refusal and "headcheck doctor" in rung.refusal
        assert "\n" not in rung.summary + rung.refusal


def test_a_report_carries_the_rung() -> None:
    report = report_of([], rung_of({}))
    assert json.loads(to_json(report))["sandbox"]["rung"] == "A"
    for form in ("text", "html"):
        assert "rung A: confined by namespaces" in run.rendered(report, form)
    trusted = report_of([], nothing("macOS"))
    for form in ("text", "html"):
        assert "NOT confined" in run.rendered(trusted, form)
    assert "sandbox" not in run.rendered(report_of([]), "text")


# -------------------------------------------------------------------------- the probing


@LINUX
def test_an_attempt_tells_what_went_wrong_and_leaves_this_process_as_it_was() -> None:
    def missing() -> None:
        raise OSError(38, "Function not implemented")

    def strange() -> None:
        os.environ["HEADCHECK_ATTEMPT"] = "1"
        raise ValueError("as strange as can be")

    def silent() -> None:
        os._exit(3)

    assert probe.attempt(lambda: None) is None
    assert probe.attempt(missing) == "this kernel does not have it, or a container hides it"
    assert probe.attempt(strange) == "as strange as can be"
    assert "HEADCHECK_ATTEMPT" not in os.environ
    assert "status" in str(probe.attempt(silent))


@LINUX
def test_layers_left_out_are_missing_on_purpose() -> None:
    found = probe.problems([Layer.LANDLOCK, Layer.RLIMITS], [])
    assert found[Layer.LANDLOCK] == found[Layer.RLIMITS] == "left out on purpose"
    assert found[Layer.SCOPES] == "part of Landlock"


@LINUX
def test_an_old_landlock_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: 5)
    found = probe.problems([Layer.NAMESPACES], [])
    assert found[Layer.SCOPES] == "this kernel has version 5 of Landlock, it takes 6"


# ------------------------------------------------------------------------- what follows


@LINUX
@pytest.mark.parametrize("layer", [Layer.SECCOMP, Layer.LANDLOCK, Layer.RLIMITS])
def test_too_little_confinement_is_refused_in_one_line(layer: Layer) -> None:
    with pytest.raises(SandboxError) as caught:
        Server(without=[layer]).ready()
    message = str(caught.value)
    assert message.startswith("submissions cannot be confined here (rung C; ")
    assert f"{layer.value}: left out on purpose" in message
    assert "\n" not in message


WINS = {
    Layer.LANDLOCK: "open('/etc/passwd').close()\nreturn x",
    Layer.SECCOMP: "os.fork() or os._exit(0)\nos.wait()\nreturn x",
    Layer.RLIMITS: "kept = [open('/dev/null') for _ in range(99)]\nreturn x",
}


@LINUX
@pytest.mark.parametrize("layer", list(WINS))
def test_trusted_code_has_what_is_left_and_no_layer_is_idle(
    layer: Layer, sandbox: "Sandbox"
) -> None:
    sandbox.failed(WINS[layer])
    # Namespaces hide files, too: without them each of the others stands alone.
    with Server(trusted=True, without=[layer, Layer.NAMESPACES]) as server:
        assert (server.rung.name, server.rung.confines) == ("C", False)
        weaker = type(sandbox)(server)
        session, module = weaker.opened_with(WINS[layer])
        assert weaker.called(module).outputs[0].tolist() == [1.0, 2.0]
        session.close()
        for other in WINS.keys() - {layer}:
            weaker.failed(WINS[other])


@LINUX
def test_the_folder_of_its_own_takes_namespaces(sandbox: "Sandbox") -> None:
    body = "open('x', 'w').close()\nreturn x"
    session, module = sandbox.opened_with(body)
    if sandbox.server.rung.name != "A":
        pytest.skip("there are no user namespaces on this machine")
    sandbox.called(module)
    session.close()
    with Server(without=[Layer.NAMESPACES]) as server:
        type(sandbox)(server).failed(body)


@pytest.mark.parametrize(("platform", "device"), [("darwin", "cpu"), ("linux", "cuda")])
def test_where_nothing_can_be_confined_only_trusted_code_runs(
    platform: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    with pytest.raises(SandboxError) as caught:
        run.sandbox(device=device)
    assert (device if device != "cpu" else platform) in str(caught.value)
    assert "--trusted" in str(caught.value)
    place = run.sandbox(trusted=True, device=device)
    assert isinstance(place, Unconfined)
    assert (place.rung.name, place.rung.confines) == ("D", False)


def test_without_a_sandbox_the_verdicts_are_the_same(sandbox: "Sandbox", tmp_path: Path) -> None:
    for name, text in {"ada": RIGHT, "bob": RIGHT.replace("-1", "0"), "eve": "def f(:"}.items():
        (tmp_path / f"{name}.py").write_text(text)
    found = find([str(tmp_path)])
    inside = [record for one in found for record in grade(sandbox.server, one, SETTINGS)]
    with Unconfined("for a test") as place:
        outside = [record for one in found for record in grade(place, one, SETTINGS)]
    assert without_seconds(report_of(inside)) == without_seconds(report_of(outside))


def test_it_runs_where_what_linux_has_is_missing(tmp_path: Path) -> None:
    program = """
        import os, select, signal, socket, sys
        import IPython.core.inputtransformer2, click, hypothesis, jinja2, nbformat, torch
        import rich.console, rich.progress

        for module, names in {
            os: "readv writev fork pidfd_open O_NOFOLLOW O_NONBLOCK O_CLOEXEC setresuid sysconf",
            select: "poll",
            signal: "SIGKILL SIGXCPU pidfd_send_signal pthread_sigmask",
            socket: "AF_UNIX SOCK_SEQPACKET send_fds recv_fds",
        }.items():
            for name in names.split():
                delattr(module, name)
        sys.modules.update(dict.fromkeys(("resource", "fcntl",
        "grader.sandbox.server_side.server"))) sys.platform = "win32" from grader.ui.cli import main
        main()
    """
    (tmp_path / "ada.py").write_text(RIGHT)
    command = [sys.executable, "-c", textwrap.dedent(program), "check", "ada.py"]
    environment = {**os.environ, "PYTHONPATH": str(Path(str(run.__file__)).parents[1])}
    said = [
        subprocess.run(
            [*command, *more],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment,
            check=False,
        )
        for more in ([], ["--trusted"])
    ]
    assert (said[0].returncode, said[0].stdout) == (2, "")
    assert said[0].stderr.startswith("headcheck: submissions cannot be confined here (rung D; ")
    assert said[1].returncode == 0, said[1].stderr
    assert "rung D: submissions were NOT confined" in said[1].stdout


# ------------------------------------------------------------------------------- doctor


def test_the_doctor_tells_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    rung = rung_of({Layer.SCOPES: "this kernel has version 5 of Landlock, it takes 6"})
    assert run.described(rung) == textwrap.dedent("""\
        rung B-: namespaces, landlock, seccomp, rlimits

        A submission
          - reads Python's, torch's and the system's libraries, and no other file
          - writes no file
          - starts no process, and signals none but itself
          - opens no socket, and so reaches no network
          - is bounded in time, memory, threads, open files and output, and ends with the examiner
          - signals and sockets have one lock, not two

        Missing
          - scopes: this kernel has version 5 of Landlock, it takes 6
            needs Linux 6.12 or later
        """)
    assert "only --trusted runs it here" in run.described(rung_of({Layer.SECCOMP: "no"}))
    assert "is not confined in any way" in run.described(nothing("no"))


@LINUX
@pytest.mark.parametrize(("without", "code"), [((), 0), ((Layer.SECCOMP,), 1)])
def test_the_doctor_tries_it_out(
    without: tuple[Layer, ...],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def weaker(*, trusted: bool, ahead: None) -> Server:
        return Server(trusted=trusted, without=without, ahead=ahead)

    monkeypatch.setattr(worker_pool, "Server", weaker)
    assert doctor(monkeypatch) == code
    assert capsys.readouterr().out.startswith("rung ")


def doctor(monkeypatch: pytest.MonkeyPatch) -> object:
    from grader.ui.cli import main

    monkeypatch.setattr(sys, "argv", ["headcheck", "doctor"])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


# ------------------------------------------------------------------- how a child ended


@pytest.mark.parametrize(
    ("told", "confined", "problem"),
    [
        (b'+{"signal": 9, "cpu": 1.5, "memory": 3, "queued": 0.5}', True, ""),
        (b'{"signal": 9, "cpu": 1.5, "memory": 3, "queued": 0.5}', False, "it ended before it was"),
        (
            b'-OSError: no{"signal": 9, "cpu": 1.5, "memory": 3, "queued": 0.5}',
            False,
            "OSError: no",
        ),
    ],
)
def test_how_a_child_ended_is_read(told: bytes, confined: bool, problem: str) -> None:
    ended = ended_of(told)
    assert ended is not None
    assert (ended.signal, ended.cpu, ended.memory, ended.queued) == (9, 1.5, 3, 0.5)
    assert (ended.confined, ended.problem) == (confined, problem)
    assert ended_of(told[:-1]) is None


@LINUX
def test_a_child_that_cannot_be_confined_is_our_fault(sandbox: "Sandbox") -> None:
    child = sandbox.server.child(Limits(threads=-5))
    with pytest.raises(SandboxError, match=r"could not be confined: \w+"):
        child.request("drop", {"handles": []})
    assert sandbox.is_good()
