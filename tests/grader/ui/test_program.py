"""The program: torch is imported once, before the process knows its task; all else is as given."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader.ui.program import raise_interrupts
from tests.commands import RIGHT
from tests.grader.kills import GradingRun, write_class
from tests.interpreter import run_python

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
ROOT = Path(__file__).parents[3]
CANARY, SEED = "a-secret-of-the-caller-7f3a", "739152864035"
LIMIT_S = 120.0


def start(*arguments: str, folder: Path, **more: str) -> "subprocess.Popen[str]":
    """The command as a process, in an environment with a secret."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HEADCHECK_TEST_CANARY": CANARY, **more}
    return subprocess.Popen(
        [sys.executable, "-m", "headcheck", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment,
        start_new_session=True,
    )


def wait_until(probe: Callable[[], object]) -> None:
    limit = time.monotonic() + LIMIT_S
    while not probe():
        assert time.monotonic() < limit
        time.sleep(0.01)


def list_session(leader: int) -> dict[int, int]:
    """The processes of a session, and their parents."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(words[3]) == leader and words[0] not in "ZX":
                found[int(entry.name)] = int(words[1])
    return found


def find_torch(pid: int) -> str | None:
    """The address at which a process has torch: another one wherever it was loaded anew."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            if "libtorch_cpu" in line:
                return line.partition("-")[0]
    return None


def scan(pid: int, secrets: Mapping[str, bytes]) -> set[str]:
    """The secrets that are somewhere in what a process may write: its heap, its stack, its data."""
    found = set()
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            if re.match(r"\S+ rw", line) and "[v" not in line:
                first, last = (int(each, 16) for each in line.split()[0].split("-"))
                memory.seek(first)
                with suppress(OSError):
                    data = memory.read(last - first)
                    found |= {name for name, secret in secrets.items() if secret in data}
    return found


@pytest.fixture
def watched(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """A command that has checked a file with a seed, and waits for the next."""
    (tmp_path / "ada.py").write_text(RIGHT)
    command = ("check", "ada.py", "--exercise", "simplified_attention", "--seed", SEED, "--watch")
    process = start(*command, folder=tmp_path)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("watching: ")
    yield process
    process.kill()
    process.communicate()


def find_zygote(leader: int) -> int:
    [zygote] = [pid for pid, parent in list_session(leader).items() if parent == leader]
    return zygote


# ------------------------------------------------------------------------- one import


@pytest.mark.whole
def test_a_class_with_two_workers_loads_torch_once(tmp_path: Path) -> None:
    run = GradingRun(tmp_path, write_class(tmp_path / "class", 6))
    try:
        kinds = ("grader", "zygote", "worker", "server")
        wait_until(lambda: all(map(run.find_by_kind, kinds)))
        addresses = {find_torch(pid) for pid in run.list_processes()}
    finally:
        run.close()
    assert len(addresses - {None}) == 1


def run_and_tell(
    told: str, arguments: list[str], folder: Path
) -> "subprocess.CompletedProcess[str]":
    """Run a command in one process, which prints in the end what this expression is there."""
    program = (
        "import sys\n"
        "from headcheck.grader.ui.cli import main\n"
        f"sys.argv = ['headcheck', *{arguments!r}]\n"
        f"try:\n    main()\nfinally:\n    print({told})\n"
    )
    return run_python("-c", program, folder=folder)


HEAVY = (
    *("torch", "hypothesis", "numpy", "IPython", "jinja2"),
    *("sqlalchemy", "alembic", "psycopg", "pyarrow"),
)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("--help", 0),
        ("--version", 0),
        ("check --help", 0),
        ("list", 0),
        ("show causal_attention", 0),
        ("hint causal_attention 2", 0),
        ("check", 2),
        ("grade", 2),
        ("nonsense", 2),
    ],
)
def test_commands_that_judge_nothing_import_nothing_heavy(
    command: str, code: int, tmp_path: Path
) -> None:
    ran = run_and_tell(f"sys.modules.keys() & {HEAVY}", command.split(), tmp_path)
    assert (ran.returncode, ran.stdout.splitlines()[-1]) == (code, "set()"), ran.stderr
    assert "Traceback" not in ran.stderr


ROOMS = (
    *("headcheck.properties.binding", "headcheck.grader.audit", "headcheck.grader.authoring"),
    *("headcheck.grader.course", "headcheck.grader.grading.open_mode"),
    *("headcheck.grader.grading.stated_form", "headcheck.grader.grading.stated_roles"),
)
"""what only answers in other forms need, and only other commands"""
WRONG_ALONE = (
    *("headcheck.properties.mistakes", "headcheck.grader.grading.explanation"),
    *("headcheck.grader.grading.consequences", "headcheck.grader.grading.places"),
)
"""what only wrong answers need"""


@pytest.mark.parametrize(
    ("command", "slug", "closed"),
    [
        ("check right.py", "kv_cache", ROOMS + WRONG_ALONE),
        ("check wrong.py", "self_attention_v1", ROOMS),
        ("grade right.py wrong.py", "self_attention_v1", ROOMS),
    ],
)
def test_an_answer_to_an_exercise_is_judged_without_what_others_need(
    command: str, slug: str, closed: tuple[str, ...], tmp_path: Path
) -> None:
    assert all(map(find_spec, closed)), "there are such rooms"
    entered = f"[name for name in sys.modules if name.startswith({closed})]"
    right = BY_SLUG[slug].solution.replace("keys =", f"assert not {entered}; keys =")
    (tmp_path / "right.py").write_text(f"import sys\n{right}")  # a worker enters none, either
    (tmp_path / "wrong.py").write_text(f"import sys\n{right}".replace("dim=-1", "dim=0"))
    ran = run_and_tell(entered, command.split(), tmp_path)
    assert ran.stdout.splitlines()[-1] == "[]"
    assert (" passed" in ran.stdout, " failed" in ran.stdout) == (
        "right" in command,
        "wrong" in command,
    )


# -------------------------------------------------------------------------- no secret


def assert_no_file_of_the_command(zygote: int) -> None:
    folder = Path(f"/proc/{zygote}/fd")
    open_files = {int(each.name): str(each.readlink()) for each in folder.iterdir()}
    assert open_files.pop(0) == "/dev/null"
    streams = [open_files.pop(fd) for fd in (1, 2)]
    assert all(each.startswith("pipe:") for each in streams)
    assert all(
        each.startswith(("socket:", "anon_inode:[pidfd]", "pidfd:", "pipe:"))
        for each in open_files.values()
    )
    assert not any("memfd" in each for each in open_files.values())


def test_torch_is_loaded_once_by_a_zygote_that_knows_nothing_of_the_command(
    watched: "subprocess.Popen[str]",
) -> None:
    there = list_session(watched.pid)
    assert len(there) >= 3, "grader process, zygote, fork server"
    addresses = {find_torch(pid) for pid in there}
    assert len(addresses) == 1 and None not in addresses
    zygote = find_zygote(watched.pid)
    assert_no_file_of_the_command(zygote)
    secrets = {"environment": CANARY.encode(), "seed": SEED.encode(), "file": b"ada.py"}
    assert scan(watched.pid, secrets) == set(secrets), "the scan finds what is there"
    forked = [pid for pid, parent in list_session(watched.pid).items() if parent == zygote]
    assert forked, "a fork server"
    for pid in (zygote, *forked):
        assert scan(pid, secrets) == set()
        for name in ("environ", "cmdline"):
            text = Path(f"/proc/{pid}/{name}").read_bytes()
            assert not any(secret in text for secret in secrets.values())


def test_a_submission_finds_nothing_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "eve.py").write_text(
        "import os, sys\n"
        "def is_open(fd):\n"
        "    try:\n        os.fstat(fd)\n"
        "    except OSError:\n        return False\n"
        "    return True\n"
        "def simplified_attention(x):\n"
        "    loaded = {name.split('.')[0] for name, module in sys.modules.items() if module}\n"
        "    rooms = loaded & {'exercises', 'properties', 'reference', 'click'}\n"
        "    fds = [fd for fd in range(1024) if is_open(fd)]\n"
        "    raise ValueError(f'{fds} {sorted(os.environ)} {sorted(rooms)} {sys.argv}')\n"
    )
    process = start(
        *("check", "eve.py", "--seed", SEED, "--format", "json", "--exercise"),
        "simplified_attention",
        folder=tmp_path,
    )
    out, _ = process.communicate(timeout=LIMIT_S)
    [told] = set(re.findall(r"\[0, 1, 2[^\"]*", out))
    names = "HOME LANG MKL_NUM_THREADS MPLBACKEND NUMEXPR_NUM_THREADS OMP_NUM_THREADS"
    names += " OPENBLAS_NUM_THREADS PATH TMPDIR"
    assert told.startswith(f"[0, 1, 2, 3] {names.split()} []"), told
    assert SEED not in told


# ----------------------------------------------------------------- the same command


def test_environment_folder_exit_code_and_names_in_any_bytes_are_the_callers(
    tmp_path: Path,
) -> None:
    name = os.fsdecode(b"bob\xff.py")
    (tmp_path / name).write_text(RIGHT.replace("dim=-1", "dim=0"))
    process = start(
        *("check", name, "--exercise", "simplified_attention"),
        folder=tmp_path,
        XDG_CACHE_HOME=str(tmp_path / "cache"),
        PYTHONIOENCODING="ascii",
    )
    out, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, err) == (1, "")
    assert re.match(r"bob\S*\.py  simplified_attention", out) and out.isascii()
    assert list((tmp_path / "cache" / "headcheck").glob("*.script"))


def test_messages_name_the_command_as_it_was_given(tmp_path: Path) -> None:
    process = start("check", ".", "--watch", "--exercise", "nonsense", folder=tmp_path)
    _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 2
    assert err.startswith("headcheck: ") and err.count("\n") == 1


# ---------------------------------------------------------------------- how it may end


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Have interrupts arrive: what a shell runs in the background ignores them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_while_torch_is_imported_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "ada.py").write_text(RIGHT)
    process = start("check", "ada.py", folder=tmp_path)
    wait_until(lambda: find_torch(process.pid))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, err) == (2, "headcheck: interrupted\n")


@pytest.mark.sampled("number", [signal.SIGKILL, signal.SIGTERM], [signal.SIGKILL])
def test_a_killed_command_leaves_nothing(
    watched: "subprocess.Popen[str]", number: signal.Signals
) -> None:
    watched.send_signal(number)
    assert watched.wait(10) == -number
    wait_until(lambda: not list_session(watched.pid))


def test_a_killed_zygote_is_told_of(watched: "subprocess.Popen[str]", tmp_path: Path) -> None:
    os.kill(find_zygote(watched.pid), signal.SIGKILL)
    (tmp_path / "ada.py").write_text(RIGHT + "\n")
    _, err = watched.communicate(timeout=LIMIT_S)
    assert watched.returncode == 2
    assert err == (
        "headcheck: the fork server is gone: it was killed, or memory ran out; "
        "give the command again\n"
    )


def test_an_import_that_fails_is_one_line(tmp_path: Path) -> None:
    program = """
import sys
from headcheck.grader.sandbox.server_side import zygote
from headcheck.grader.ui import program
def fail():
    raise ImportError("no torch here")
zygote.load_torch = fail
program.go_on(0)
"""
    ran = run_python("-c", program, folder=tmp_path)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("headcheck: an internal error of headcheck")
    assert "no torch here" in ran.stderr and ran.stderr.count("\n") == 1


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_that_an_import_caught_is_raised_in_the_end() -> None:
    def lose_an_interrupt() -> None:
        with raise_interrupts(), suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        lose_an_interrupt()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
