"""Which rung a machine is on, what is said about it, and what follows from it."""

import json
import os
import sys
import textwrap
from pathlib import Path

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader import run
from headcheck.grader.grading import worker_pool
from headcheck.grader.grading.grade import grade_file_or_raise
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.submission import find_submissions
from headcheck.grader.report.records import build_report, strip_seconds, to_json
from headcheck.grader.sandbox.grader_side.in_process import UnconfinedSandbox
from headcheck.grader.sandbox.grader_side.servers import (
    SandboxError,
    ServerHandle,
    parse_exit_status,
)
from headcheck.grader.sandbox.isolation import (
    GUARANTEES,
    REMEDIES,
    REQUIRED_LAYERS,
    Layer,
    determine_isolation_level,
    make_unconfined_level,
)
from headcheck.grader.sandbox.limits import Limits
from headcheck.grader.sandbox.server_side.jail import landlock, probe
from tests.commands import RIGHT
from tests.grader.conftest import SandboxDriver
from tests.interpreter import run_python

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
def test_isolation_level_follows_from_missing_layers(missing: tuple[Layer, ...], name: str) -> None:
    level = determine_isolation_level(dict.fromkeys(missing, "because"))
    assert level.name == name
    assert level.is_confining == (name in REQUIRED_LAYERS)
    assert set(level.layers) == set(Layer) - set(missing)
    assert [m.layer for m in level.missing] == list(missing)
    assert all(m.why == "because" and m.how for m in level.missing)


def test_every_level_and_layer_is_documented() -> None:
    assert list(GUARANTEES) == ["A", "B", "B-", "C", "D"]
    assert REMEDIES.keys() == set(Layer)


def test_isolation_level_has_a_one_line_summary() -> None:
    confined = determine_isolation_level({Layer.NAMESPACES: "no"})
    assert confined.summary == "isolation level B: confined by landlock, scopes, seccomp, rlimits"
    for level in (determine_isolation_level({Layer.SECCOMP: "no"}), make_unconfined_level("no")):
        assert "NOT confined" in level.summary and "--trusted" in level.summary
        assert "--trusted" in level.refusal and "headcheck doctor" in level.refusal
        assert "\n" not in level.summary + level.refusal


def test_report_contains_the_isolation_level() -> None:
    report = build_report([], determine_isolation_level({}))
    assert json.loads(to_json(report))["sandbox"]["rung"] == "A"
    assert "level A: confined by namespaces" in run.render_report(report, "html")
    trusted = build_report([], make_unconfined_level("macOS"))
    for form in ("text", "html"):
        assert "NOT confined" in run.render_report(trusted, form)
    assert "sandbox" not in run.render_report(build_report([]), "text")


# -------------------------------------------------------------------------- the probing


@LINUX
def test_probe_reports_the_failure_and_leaves_this_process_unchanged() -> None:
    def missing() -> None:
        raise OSError(38, "Function not implemented")

    def strange() -> None:
        os.environ["HEADCHECK_ATTEMPT"] = "1"
        raise ValueError("as strange as can be")

    def silent() -> None:
        os._exit(3)

    assert probe.attempt(lambda: None) is None
    assert probe.attempt(missing) == "this kernel does not have it, or a container disables it"
    assert probe.attempt(strange) == "as strange as can be"
    assert "HEADCHECK_ATTEMPT" not in os.environ
    assert "status" in str(probe.attempt(silent))


@LINUX
def test_layers_left_out_are_missing_on_purpose() -> None:
    found = probe.find_missing_layers([Layer.LANDLOCK, Layer.RLIMITS], [])
    assert found[Layer.LANDLOCK] == found[Layer.RLIMITS] == "left out on purpose"
    assert found[Layer.SCOPES] == "part of Landlock"


@LINUX
def test_old_landlock_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "get_abi_version", lambda: 5)
    found = probe.find_missing_layers([Layer.NAMESPACES], [])
    assert found[Layer.SCOPES] == "this kernel has version 5 of Landlock, it takes 6"


# ------------------------------------------------------------------------- what follows


@LINUX
@pytest.mark.parametrize("layer", [Layer.SECCOMP, Layer.LANDLOCK, Layer.RLIMITS])
def test_too_little_confinement_is_refused_in_one_line(layer: Layer) -> None:
    with pytest.raises(SandboxError) as caught:
        ServerHandle(without=[layer]).wait_until_ready()
    message = str(caught.value)
    assert message.startswith("submissions cannot be confined here (isolation level C; ")
    assert f"{layer.value}: left out on purpose" in message
    assert "\n" not in message


WINS = {
    Layer.LANDLOCK: "open('/etc/passwd').close()\nreturn x",
    Layer.SECCOMP: "os.fork() or os._exit(0)\nos.wait()\nreturn x",
    Layer.RLIMITS: "kept = [open('/dev/null') for _ in range(99)]\nreturn x",
}


@LINUX
@pytest.mark.parametrize("layer", list(WINS))
def test_trusted_code_uses_the_remaining_layers(layer: Layer, sandbox: SandboxDriver) -> None:
    sandbox.get_failure(WINS[layer])
    # Namespaces hide files, too: without them each of the others stands alone.
    with ServerHandle(trusted=True, without=[layer, Layer.NAMESPACES]) as server:
        assert (server.isolation_level.name, server.isolation_level.is_confining) == ("C", False)
        weaker = type(sandbox)(server)
        session, module = weaker.open_with_body(WINS[layer])
        assert weaker.call(module).outputs[0].tolist() == [1.0, 2.0]
        session.close()
        for other in WINS.keys() - {layer}:
            weaker.get_failure(WINS[other])


@LINUX
def test_private_folder_requires_namespaces(sandbox: SandboxDriver) -> None:
    """The call must pass with namespaces, and without them `get_failure` demands that it fails."""
    body = "open('x', 'w').close()\nreturn x"
    session, module = sandbox.open_with_body(body)
    if sandbox.server.isolation_level.name != "A":
        pytest.skip("there are no user namespaces on this machine")
    sandbox.call(module)
    session.close()
    with ServerHandle(without=[Layer.NAMESPACES]) as server:
        type(sandbox)(server).get_failure(body)


@pytest.mark.parametrize(("platform", "device"), [("darwin", "cpu"), ("linux", "cuda")])
def test_where_nothing_can_be_confined_only_trusted_code_runs(
    platform: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    with pytest.raises(SandboxError) as caught:
        run.create_sandbox(device=device)
    assert (device if device != "cpu" else platform) in str(caught.value)
    assert "--trusted" in str(caught.value)
    place = run.create_sandbox(trusted=True, device=device)
    assert isinstance(place, UnconfinedSandbox)
    assert (place.isolation_level.name, place.isolation_level.is_confining) == ("D", False)


def test_without_a_sandbox_the_verdicts_are_the_same(
    sandbox: SandboxDriver, tmp_path: Path
) -> None:
    for name, text in {"ada": RIGHT, "bob": RIGHT.replace("-1", "0"), "eve": "def f(:"}.items():
        (tmp_path / f"{name}.py").write_text(text)
    found = find_submissions([str(tmp_path)])
    inside = [
        record for one in found for record in grade_file_or_raise(sandbox.server, one, SETTINGS)
    ]
    with UnconfinedSandbox("for a test") as place:
        outside = [record for one in found for record in grade_file_or_raise(place, one, SETTINGS)]
    assert strip_seconds(build_report(inside)) == strip_seconds(build_report(outside))


def test_runs_without_linux_features(tmp_path: Path) -> None:
    program = """
        import os, select, signal, socket, sys
        import IPython.core.inputtransformer2, click, filelock, hypothesis, jinja2
        import nbformat, torch
        import rich.console, rich.progress

        filelock.FileLock = filelock.SoftFileLock  # what is left without the module fcntl
        for module, names in {
            os: "readv writev fork pidfd_open O_NOFOLLOW O_NONBLOCK O_CLOEXEC setresuid sysconf",
            select: "poll",
            signal: "SIGKILL SIGXCPU pidfd_send_signal pthread_sigmask",
            socket: "AF_UNIX SOCK_SEQPACKET send_fds recv_fds",
        }.items():
            for name in names.split():
                delattr(module, name)
        absent = ("resource", "fcntl", "headcheck.grader.sandbox.server_side.server")
        sys.modules.update(dict.fromkeys(absent))
        sys.platform = "win32"
        from headcheck.grader.ui.program import main
        try:
            main()
        except SystemExit as refused:
            print("refused", refused.code, flush=True)
        sys.argv.append("--trusted")
        main()
    """
    (tmp_path / "ada.py").write_text(RIGHT)
    done = run_python("-c", textwrap.dedent(program), "check", "ada.py", folder=tmp_path)
    assert done.stdout.startswith("refused 2\nada.py  ")
    assert done.stderr.startswith(
        "headcheck: submissions cannot be confined here (isolation level D; "
    )
    assert done.returncode == 0, done.stderr
    assert "level D: submissions were NOT confined" in done.stdout


# ------------------------------------------------------------------------------- doctor


def test_doctor_reports_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    level = determine_isolation_level(
        {Layer.SCOPES: "this kernel has version 5 of Landlock, it takes 6"}
    )
    assert run.describe_isolation(level) == textwrap.dedent("""\
        isolation level B-: namespaces, landlock, seccomp, rlimits

        A submission
          - reads Python's, torch's and the system's libraries, and no other file
          - writes no file
          - starts no process, and can signal only itself
          - opens no socket, and so reaches no network
          - has limits on time, memory, threads, open files and output, and ends with the grader
          - only one layer, not two, protects signals and sockets

        Missing
          - scopes: this kernel has version 5 of Landlock, it takes 6
            needs Linux 6.12 or later
        """)
    assert "only --trusted runs it here" in run.describe_isolation(
        determine_isolation_level({Layer.SECCOMP: "no"})
    )
    assert "is not confined in any way" in run.describe_isolation(make_unconfined_level("no"))


@LINUX
@pytest.mark.parametrize(("without", "code"), [((), 0), ((Layer.SECCOMP,), 1)])
def test_doctor_runs_a_sample_submission(
    without: tuple[Layer, ...],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def weaker(*, trusted: bool, ahead: None) -> ServerHandle:
        return ServerHandle(trusted=trusted, without=without, ahead=ahead)

    monkeypatch.setattr(worker_pool, "ServerHandle", weaker)
    assert doctor(monkeypatch) == code
    assert capsys.readouterr().out.startswith("isolation level ")


def doctor(monkeypatch: pytest.MonkeyPatch) -> object:
    from headcheck.grader.ui.cli import main

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
def test_child_exit_status_is_parsed(told: bytes, confined: bool, problem: str) -> None:
    ended = parse_exit_status(told)
    assert ended is not None
    assert (ended.signal, ended.cpu, ended.memory, ended.queued) == (9, 1.5, 3, 0.5)
    assert (ended.confined, ended.problem) == (confined, problem)
    assert parse_exit_status(told[:-1]) is None


@LINUX
def test_unconfinable_child_is_an_internal_error(sandbox: SandboxDriver) -> None:
    child = sandbox.server.start_child(Limits(threads=-5))
    with pytest.raises(SandboxError, match=r"could not be confined: \w+"):
        child.request("drop", {"handles": []})
    assert sandbox.is_good()


@pytest.mark.parametrize(
    ("cuda", "available", "told"),
    [("13.0", False, True), ("13.0", True, False), (None, False, False)],
)
def test_doctor_names_a_build_of_torch_for_a_card_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    cuda: str | None,
    available: bool,
    told: bool,
) -> None:
    monkeypatch.setattr("torch.version.cuda", cuda)
    monkeypatch.setattr("torch.cuda.is_available", lambda: available)
    assert doctor(monkeypatch) in (0, 1)
    assert ("is built for CUDA, and this machine has no card" in capsys.readouterr().out) == told
