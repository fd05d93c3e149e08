"""Archives that strangers made: nothing leaves the folder, nothing grows without end."""

import io
import os
import stat
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

import pytest

from headcheck.grader.course.intake.unpack import Item, Unpacker, UnpackLimits
from headcheck.grader.reading.submission import find_submissions

CODE = "def f(x):\n    return x\n"
Members = dict[str, str | bytes]


def packed(members: Members, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return buffer.getvalue()


Unpack = Callable[..., dict[str, Item]]


def everything(unpacker: Unpacker, path: Path) -> list[Item]:
    """What is listed, with students' archives opened."""
    return [each for item in unpacker.list_items(path) for each in unpacker.open_item(item)]


@pytest.fixture
def unpacked(tmp_path: Path) -> Unpack:
    """What an archive of these bytes gives, by name; checks that all of it lies in the folder."""

    def unpack(data: bytes, **caps: int) -> dict[str, Item]:
        private = Path(tempfile.mkdtemp(dir=tmp_path))
        archive = tmp_path / "class.zip"
        archive.write_bytes(data)
        before = {*tmp_path.rglob("*")}
        items = everything(Unpacker(private, UnpackLimits(**caps)), archive)
        new = {*tmp_path.rglob("*")} - before
        assert all(path.parent == private and path.is_file() for path in new)
        assert all(item.file is None or item.file.parent == private for item in items)
        assert all(bool(item.problem) == (item.file is None) for item in items)
        return {str(item.path): item for item in items}

    return unpack


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("../../evil.py", "evil.py"),
        ("/etc/evil.py", "etc/evil.py"),
        ("a/../../evil.py", "a/evil.py"),
        ("..\\..\\evil.py", "evil.py"),
        ("C:\\evil.py", "C:/evil.py"),
    ],
)
def test_escaping_paths_are_refused_and_others_extracted(
    unpacked: Unpack, name: str, shown: str
) -> None:
    found = unpacked(packed({name: CODE, "good.py": CODE}))
    assert found[shown].problem == "has a name that points outside the archive"
    good = found["good.py"].file
    assert good is not None and good.read_text() == CODE


def test_members_are_written_under_numbered_names(unpacked: Unpack) -> None:
    long, odd = "x" * 5000 + ".py", "a\n\u202e'\";$(rm).PY"
    found = unpacked(packed({long: CODE, odd: CODE, "ada/con.py": CODE}))
    names = [item.file.name for item in found.values() if item.file]
    assert names == ["000001.py", "000002.py", "000003.py"]
    assert {long, odd} <= found.keys()


def test_only_what_can_be_a_submission_is_written(unpacked: Unpack) -> None:
    members: Members = {
        "a.py": CODE, "a.pdf": "x", "b.so": "x", "__MACOSX/._a.py": "x", "._c.py": "x",
        ".git/hooks/x.py": "x", ".ipynb_checkpoints/a-checkpoint.ipynb": "{}", "timestamp.txt": "",
    }  # fmt: skip
    found = unpacked(packed(members))
    assert found.keys() == {"a.py", "a.pdf", "timestamp.txt"}
    told = "is no notebook and no module (.pdf): hand in the .ipynb or .py file"
    assert (found["a.pdf"].file, found["a.pdf"].problem) == (None, told)


def test_zip_bomb_is_stopped_by_its_actual_size(unpacked: Unpack) -> None:
    zeros = b"\0" * (9 << 20)
    data = packed({"bomb.py": zeros, "good.py": CODE})
    assert len(data) < 20_000
    found = unpacked(data, member=1 << 20)
    assert found["bomb.py"].problem == "unpacks to more than 1 MiB"
    assert found["good.py"].file
    lying = data.replace((9 << 20).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    assert lying != data
    found = unpacked(lying, member=1 << 20)
    assert found["bomb.py"].problem and found["good.py"].file


def test_all_archives_together_have_a_limit(unpacked: Unpack) -> None:
    members: Members = {f"{i}.py": b"\0" * (1 << 20) for i in range(5)}
    found = unpacked(packed(members), total=3 << 20)
    assert [bool(item.file) for item in found.values()] == [True] * 3 + [False] * 2
    assert "all unpacked files together are over 3 MiB" in found["4.py"].problem


def test_archive_with_too_many_members_is_refused(unpacked: Unpack) -> None:
    members: Members = {f"{i}.py": "" for i in range(11)}
    (only,) = unpacked(packed(members), members=10).values()
    assert only.problem == "lists 11 members, over the limit of 10"


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_duplicate_member_counts_once(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.py", "first")
        archive.writestr("a.py", "second")
    archive_path = tmp_path / "twice.zip"
    archive_path.write_bytes(buffer.getvalue())
    first, second = Unpacker(tmp_path, UnpackLimits()).list_items(archive_path)
    assert first.file and first.file.read_text() == "first"
    assert second.problem == "is in the archive twice"


def test_links_encrypted_members_and_rare_methods_are_refused(unpacked: Unpack) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        link = zipfile.ZipInfo("link.py")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr("lzma.py", CODE, zipfile.ZIP_LZMA)
        secret = zipfile.ZipInfo("secret.py")
        archive.writestr(secret, CODE)
        secret.flag_bits |= 1
    found = unpacked(buffer.getvalue())
    assert found["link.py"].problem == "is not a regular file in the archive"
    assert found["lzma.py"].problem == "is compressed by a method other than deflate"
    assert found["secret.py"].problem == "is encrypted"


def test_damaged_member_does_not_affect_others(unpacked: Unpack) -> None:
    stored = packed({"a.py": "A" * 100, "b.py": "B" * 100}, zipfile.ZIP_STORED)
    found = unpacked(stored.replace(b"A" * 100, b"A" * 99 + b"X"))
    assert "Bad CRC-32" in found["a.py"].problem
    assert found["b.py"].file
    (only,) = unpacked(b"PK\x03\x04 and nothing more").values()
    assert only.problem.startswith("is not a readable zip archive")
    assert only.path == PurePosixPath("class.zip")


def test_a_download_is_listed_before_any_archive_in_it_is_opened(tmp_path: Path) -> None:
    archive = tmp_path / "class.zip"
    archive.write_bytes(packed({"ada.zip": packed({"a.py": CODE}), "..zip": packed({"b.py": ""})}))
    unpacker = Unpacker(tmp_path, UnpackLimits())
    listed = list(unpacker.list_items(archive))
    assert [str(item.path) for item in listed] == ["ada.zip", "..zip"]
    opened = [str(each.path) for item in listed for each in unpacker.open_item(item)]
    assert opened == ["ada/a.py", "..zip/b.py"]


def test_archive_does_not_use_up_other_students_quota(unpacked: Unpack) -> None:
    greedy = packed({f"{i}.py": b"\0" * (1 << 20) for i in range(9)})
    found = unpacked(packed({"ada.zip": greedy, "bob.py": CODE}), archive=3 << 20, total=8 << 20)
    assert [bool(item.file) for item in found.values()] == [True] * 3 + [False] * 6 + [True]
    assert found["ada/3.py"].problem == "its archive unpacks to over 3 MiB"


@pytest.mark.parametrize(
    "name", ["/x/a.py", "//x/a.py", "../../x/a.py", "..\\x\\a.py", "\\x\\a.py"]
)
def test_members_are_shown_below_their_archive(unpacked: Unpack, name: str) -> None:
    (only,) = unpacked(packed({"ada.zip": packed({name: CODE})}))
    assert only == "ada/x/a.py"


@pytest.fixture
def nested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], Path]]:
    """Makes folders in folders, and removes them: what comes after a test cannot."""
    top = tmp_path / "class"
    top.mkdir()
    monkeypatch.chdir(top)
    step, made = Path("d"), [0]

    def nest(levels: int) -> Path:
        for _ in range(levels):
            step.mkdir()
            os.chdir(step)
            made[0] += 1
        Path("a.py").write_text(CODE)
        return top

    yield nest
    Path("a.py").unlink()
    for _ in range(made[0]):
        os.chdir("..")
        step.rmdir()


@pytest.mark.parametrize(
    ("levels", "problem"),
    [(1500, ""), (2500, "is a folder that cannot be read: File name too long")],
)
def test_folders_are_listed_as_deep_as_paths_go(
    nested: Callable[[int], Path], tmp_path: Path, levels: int, problem: str
) -> None:
    top = nested(levels)
    (top / "bob.py").write_text(CODE)
    bob, deep = Unpacker(tmp_path, UnpackLimits()).list_items(top)
    assert (str(bob.path), bob.problem) == ("bob.py", "")
    assert deep.problem == problem and set(deep.path.parts) <= {"d", "a.py"}


def test_a_student_s_archive_is_a_folder_and_no_deeper_one_is_opened(unpacked: Unpack) -> None:
    inner = packed({"src/attention.py": CODE, "deeper.zip": packed({"a.py": CODE})})
    found = unpacked(packed({"ada.zip": inner, "bob.zip": b"no zip"}))
    assert found["ada/src/attention.py"].file
    told = "is an archive inside an archive; unpack it"
    assert found["ada/deeper.zip"].problem == told
    assert found["bob.zip"].problem.startswith("is not a readable zip archive")


def test_archives_in_a_folder_are_opened_with_care(tmp_path: Path) -> None:
    folder, private = tmp_path / "class", tmp_path / "private"
    folder.mkdir()
    private.mkdir()
    (folder / "ada.zip").write_bytes(packed({"attention.py": CODE}))
    (folder / "bob.zip").symlink_to(folder / "ada.zip")
    os.mkfifo(folder / "eve.zip")
    (folder / "large.zip").write_bytes(b"\0" * (2 << 20))
    items = everything(Unpacker(private, UnpackLimits(member=1 << 20)), folder)
    told = {str(item.path): item.problem for item in items}
    assert told["ada/attention.py"] == ""
    assert "symbolic link" in told["bob.zip"] and "no regular file" in told["eve.zip"]
    assert "over the limit of 1 MiB" in told["large.zip"]


def test_no_submission_is_found_where_no_person_writes_any(tmp_path: Path) -> None:
    """The files of a folder, alike whether it is graded as it is, into a store, or packed."""
    junk = [
        "ada/._hw.py", "__MACOSX/ada/._hw.py", "ada/venv/lib/site.py", "ada/.venv/a.py",
        "env/lib/site-packages/torch/nn.py", "ada/.ipynb_checkpoints/hw-checkpoint.ipynb",
    ]  # fmt: skip
    for name in [*junk, "ada/hw.py"]:
        path = tmp_path / "class" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(CODE)
    archive = tmp_path / "class.zip"
    archive.write_bytes(packed(dict.fromkeys([*junk, "ada/hw.py"], CODE)))
    private = tmp_path / "private"
    private.mkdir()
    for download in (tmp_path / "class", archive):
        listed = Unpacker(private, UnpackLimits()).list_items(download)
        assert [str(item.path) for item in listed] == ["ada/hw.py"]
    found = find_submissions([str(tmp_path / "class")])
    assert [each.path.name for each in found] == ["hw.py"]
