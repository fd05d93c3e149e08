"""Disks that are full or closed to us, and terminals that are gone: nothing judged is lost."""

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headcheck.grader import files
from headcheck.grader.course.intake import unpack
from headcheck.grader.files import WriteError
from headcheck.grader.report.records import from_json
from headcheck.grader.sandbox.server_side.jail import confine
from tests.commands import RIGHT, WRONG, Command, one_line, written

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="limits and descriptors are POSIX's"
)
NO_SPACE = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
SLUG = "simplified_attention"


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Lets the disk be full from now on: what is written ends in the middle."""

    def fill() -> None:
        def write_half(descriptor: int, data: bytes) -> None:
            os.write(descriptor, data[: len(data) // 2])
            raise NO_SPACE

        monkeypatch.setattr(files, "_write_all", write_half)

    return fill


# ------------------------------------------------------------------------------- files


def test_file_is_replaced_whole_or_not_at_all(tmp_path: Path, full: Callable[[], None]) -> None:
    path = tmp_path / "report.json"
    files.write(path, b"old")
    full()
    with pytest.raises(WriteError, match=r"report\.json: cannot be written: No space.*free some"):
        files.write(path, b"new and longer")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_file_keeps_its_mode_and_a_link_its_target(tmp_path: Path) -> None:
    path, link = tmp_path / "grades.csv", tmp_path / "link.csv"
    files.write(path, b"1")
    assert path.stat().st_mode & 0o777 == 0o666 & ~os.umask(os.umask(0o022))
    path.chmod(0o640)
    link.symlink_to(path)
    files.write(link, b"2")
    assert link.is_symlink() and path.read_bytes() == b"2"
    assert path.stat().st_mode & 0o777 == 0o640


def test_special_file_is_written_to_in_place(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reading = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    files.write(fifo, b"grades")
    assert os.read(reading, 100) == b"grades"
    os.close(reading)
    assert fifo.is_fifo()


def test_folder_is_tried_before_it_is_needed(tmp_path: Path, full: Callable[[], None]) -> None:
    files.ensure_writable(tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").iterdir()) == []
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(WriteError, match="a file is where a folder should be"):
            files.ensure_writable(path)
    full()
    with pytest.raises(WriteError, match="No space left on device"):
        files.ensure_writable(tmp_path / "a")


def test_os_errors_are_reported_without_numbers() -> None:
    assert files.describe_os_error(FileNotFoundError(2, "No such file or directory", "x.toml")) == (
        "x.toml: No such file or directory"
    )
    assert "likely in" in files.describe_os_error(NO_SPACE) and "TMPDIR" in files.describe_os_error(
        NO_SPACE
    )
    assert files.describe_os_error(OSError("words of ours")) == "words of ours"


def test_full_disk_is_not_blamed_on_an_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "class.zip", "w") as archive:
        archive.writestr("ada.py", RIGHT)

    def fail(*given: object) -> None:
        raise NO_SPACE

    monkeypatch.setattr(unpack.Unpacker, "_copy", fail)
    (tmp_path / "private").mkdir()
    with pytest.raises(WriteError, match="private: cannot be written: No space"):
        list(
            unpack.Unpacker(tmp_path / "private", unpack.UnpackLimits()).list_items(
                tmp_path / "class.zip"
            )
        )


# ----------------------------------------------------------------------------- commands


def test_nothing_is_graded_if_the_report_is_unwritable(
    headcheck: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(ada=RIGHT)
    Path("report").touch()
    monkeypatch.setattr("headcheck.grader.run.grade_paths", None)  # who calls it fails otherwise
    said = one_line(headcheck("grade", "ada.py", "--out", "report"))
    assert said.startswith("report: cannot be written: File exists; a file is where a folder")


@pytest.mark.parametrize("store", [False, True])
def test_report_that_cannot_be_written_is_printed(
    headcheck: Command, full: Callable[[], None], monkeypatch: pytest.MonkeyPatch, store: bool
) -> None:
    written(ada=RIGHT, alan=WRONG)
    ready = files.ensure_writable

    def ready_then_full(folder: Path) -> None:
        ready(folder)
        full()

    monkeypatch.setattr(files, "ensure_writable", ready_then_full)
    more = ["--store", "course.db"] if store else []
    told = ["ada.py", "alan.py", "--exercise", SLUG, "--format", "json", "--out", "report"]
    ran = headcheck("grade", *told, *more)
    assert ran.code == 2
    assert [s.status for s in from_json(ran.out.encode()).submissions] == ["passed", "failed"]
    assert ran.err.splitlines() == [
        *("1/2 ada.py: passed", "2/2 alan.py: failed"),
        "headcheck: report/report.json: cannot be written: No space left on device; free some "
        "space, or choose another place. The report is what is printed"
        + (", and the store keeps it." if store else "."),
    ]
    assert list(Path("report").iterdir()) == []
    if store:
        again = ["ada.py", "alan.py", "--exercise", SLUG, "--format", "json", *more]
        monkeypatch.setattr(
            "headcheck.grader.grading.worker_pool.grade_all", None
        )  # who calls it fails otherwise
        assert headcheck("grade", *again).out == ran.out


def test_full_store_keeps_what_was_finished(
    headcheck: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headcheck.grader.course.store import database

    written(ada=RIGHT)
    told = ["--store", "course.db", "--exercise", SLUG]
    assert headcheck("grade", "ada.py", *told).code == 0
    written(alan=WRONG)
    prepared = database._configure_connection

    def nearly_full(connection: object, record: object) -> None:
        prepared(connection, record)  # type: ignore[arg-type]
        connection.execute("PRAGMA max_page_count=1")  # type: ignore[attr-defined]

    with monkeypatch.context() as patched:
        patched.setattr(database, "_configure_connection", nearly_full)
        said = one_line(headcheck("grade", "ada.py", "alan.py", *told))
        assert said == (
            "course.db: database or disk is full; finished work is kept: repair this, and give "
            "the same command again"
        )
    assert headcheck("grade", "ada.py", "alan.py", *told).code == 1


@pytest.mark.parametrize("command", ["export", "dashboard"])
def test_commands_about_a_course_say_where_they_could_not_write(
    headcheck: Command, full: Callable[[], None], command: str
) -> None:
    written(ada=RIGHT)
    headcheck("grade", "ada.py", "--store", "course.db", "--exercise", SLUG)
    full()
    form = ["--format", "csv"] if command == "export" else []
    ran = headcheck(command, SLUG, "--store", "course.db", "--out", "out", *form)
    assert "out: cannot be written: No space left on device; free some space" in one_line(ran)
    assert not list(Path().glob("out/*")) and not list(Path().glob(".headcheck-*"))


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))


def test_failed_starter_write_leaves_nothing_behind(tmp_path: Path) -> None:
    # -B: Python would cut off the bytecode that it keeps, too, and stumble over it ever after.
    start = [sys.executable, "-B", "-m", "headcheck", "start", "causal_attention", str(tmp_path)]
    ran = subprocess.run(start, preexec_fn=limited, capture_output=True, text=True, check=False)
    path = tmp_path / "causal_attention.ipynb"
    assert (ran.returncode, ran.stderr) == (2, f"headcheck: {path}: File too large\n")
    assert list(tmp_path.iterdir()) == []
    assert subprocess.run(start, capture_output=True, check=False).returncode == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 80 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=80k", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small file system, and not in every container")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_disk_that_fills_up_costs_no_report(headcheck: Command, small_disk: Path) -> None:
    names = [f"s{i}" for i in range(6)]
    written(**dict.fromkeys(names, WRONG))
    paths = [f"{name}.py" for name in names]
    ran = headcheck("grade", *paths, "--out", str(small_disk), "--format", "json")
    assert ran.code == 2 and "No space left on device" in ran.err
    assert len(from_json(ran.out.encode()).submissions) == 6
    assert not list(small_disk.glob(".headcheck-*"))
    there = small_disk / "report.json"
    assert not there.exists() or len(from_json(there.read_bytes()).submissions) == 6
    (small_disk / "other").write_bytes(bytes(os.statvfs(small_disk).f_bavail * 4096))
    said = one_line(headcheck("grade", *paths, "--out", str(small_disk / "more")))
    assert "more: cannot be written: No space left on device" in said


# ------------------------------------------------------------------------ standard streams


def shell(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    """What bash says of a command, with `headcheck` for this one."""
    text = f'set -o pipefail; headcheck() {{ "{sys.executable}" -m headcheck "$@"; }}; {command}'
    root = str(Path(files.__file__).parents[2])
    return subprocess.run(
        ["bash", "-c", text],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text(WRONG)
    return tmp_path


STREAMS = (">&-", "2>&-", "<&-", "<&- >&- 2>&-", "| head -c 0", "| true")
ENDS = [(*end, streams) for streams in STREAMS for end in (("right", 0), ("wrong", 1))]


@pytest.mark.sampled(("name", "code", "streams"), ENDS, ENDS[7::4])
def test_closed_stdout_does_not_change_the_exit_code(
    desk: Path, name: str, code: int, streams: str
) -> None:
    ran = shell(desk, f"headcheck grade {name}.py --exercise {SLUG} {streams}")
    assert (ran.returncode, ran.stderr) == (code, "")


UNREAD = [(form, streams) for form in ("json", "html", "github") for streams in STREAMS[::4]]


@pytest.mark.sampled(("form", "streams"), UNREAD, UNREAD[1:2])
def test_every_format_can_be_left_unread(desk: Path, form: str, streams: str) -> None:
    ran = shell(desk, f"headcheck grade wrong.py --exercise {SLUG} --format {form} {streams}")
    assert (ran.returncode, ran.stderr) == (1, "")


def test_several_workers_are_confined_where_all_streams_are_closed(desk: Path) -> None:
    told = f"right.py wrong.py --exercise {SLUG} --jobs 2 --out report <&- >&- 2>&-"
    assert shell(desk, f"headcheck grade {told}").returncode == 1
    report = from_json((desk / "report" / "report.json").read_bytes())
    assert [s.status for s in report.submissions] == ["passed", "failed"]


PRINTING = ("list", "hint gpt2_size", f"grade right.py --exercise {SLUG}")


@pytest.mark.sampled("command", PRINTING, PRINTING[:1])
def test_full_stdout_is_reported_once(desk: Path, command: str) -> None:
    ran = shell(desk, f"headcheck {command} >/dev/full")
    assert (ran.returncode, ran.stderr) == (
        2,
        "headcheck: standard output: cannot be written: No space left on device; free some space, "
        "or choose another place\n",
    )


UNHEARD = ("2>&-", "2>/dev/full", "2>&1 >&- | head -c 0")


@pytest.mark.sampled("streams", UNHEARD, UNHEARD[:1])
def test_closed_stderr_does_not_change_the_exit_code(desk: Path, streams: str) -> None:
    assert shell(desk, f"headcheck grade nothing.py {streams}").returncode == 2


def test_watch_ends_when_nobody_reads(desk: Path) -> None:
    ran = shell(desk, f"headcheck check wrong.py --exercise {SLUG} --watch | head -c 0")
    assert (ran.returncode, ran.stderr) == (1, "")


def test_descriptors_of_a_child_survive_low_numbers() -> None:
    """What a child keeps may lie where standard streams are put, if these were closed."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(writing, 0)
        os.dup2(writing, 1)
        os.dup2(writing, 2)
        confine._keep_only(0, 1, 2)
        same = os.path.sameopenfile
        kept = [same(3, 4), same(4, 5), not same(0, 3), same(0, 1), same(1, 2)]
        os.write(3, repr(kept).encode())
        os._exit(0)
    os.close(writing)
    assert os.waitpid(pid, 0)[1] == 0
    assert os.read(reading, 1000) == repr([True] * 5).encode()
    os.close(reading)
