"""Unpack untrusted archives member by member.

Theory. No name in an archive ever becomes a file name here: a member is written under a number into
a private folder, and its name is kept as text. So a member cannot escape from the folder, be a
link, replace another member, or have a name that the file system rejects. Sizes are counted while
reading, because the author of an archive may state any sizes in it. Only files that may be
submissions are written.

A download is listed first, without opening the archives in it: the course system wrote the names at
this level. A student's archive is opened afterwards, when its owner is known, so that its contents
cannot affect the attribution.
"""

import stat
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from headcheck.grader import files
from headcheck.grader.reading.submission import (
    KIND_BY_SUFFIX,
    UnreadableSubmission,
    explain_other_kind,
    is_of_other_kind,
    is_skipped,
    read_carefully,
)

ARCHIVE = ".zip"
METADATA = frozenset(("submission_metadata.yml", "timestamp.txt"))
"""files that Gradescope and nbgrader write next to submissions"""
CHUNK = 1 << 16
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""the accepted methods of compression: others let an archive decide how much memory its reader
needs"""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpackLimits:
    """How much is extracted from archives, in bytes."""

    member: int = 64 << 20
    """one member; submissions have their own, lower limit"""
    total: int = 8 << 30
    """all members of all archives of a run"""
    archive: int = 256 << 20
    """all members of one student's archive, so that no student uses up the total"""
    members: int = 100_000
    """the number of members that one archive may list"""


@dataclass(frozen=True, slots=True)
class Item:
    """A listed file: its name, and the path of its bytes or the problem with them."""

    path: PurePosixPath
    file: Path | None
    problem: str = ""


@dataclass(eq=False)
class Unpacker:
    """Extracts archives into a private folder."""

    folder: Path
    limits: UnpackLimits
    written: int = 0
    count: int = 0

    def list_items(self, path: Path) -> Iterator[Item]:
        """List a folder, an archive or a single file; archives inside are not opened."""
        if path.is_dir():
            yield from self._walk_folder(path)
        elif path.suffix.lower() == ARCHIVE:
            archive = Item(PurePosixPath(path.name), path)
            budget = self._reserve_budget(self.limits.total)
            yield from self._extract_archive(archive, PurePosixPath(), budget)
        else:
            yield Item(PurePosixPath(path.name), path)

    def open_item(self, item: Item) -> Iterator[Item]:
        """Yield a submitted file unchanged, and an archive's members as those of a folder."""
        if item.file is None or not is_archive(item):
            yield item
            return
        try:
            copy = Item(item.path, self._copy_archive(item.file))
        except UnreadableSubmission as error:
            yield Item(item.path, None, str(error))
            return
        budget = self._reserve_budget(self.limits.archive)
        yield from self._extract_archive(copy, _strip_archive_suffix(item.path), budget)

    def _reserve_budget(self, archive: int) -> "_ByteBudget":
        """Return the budget of the next archive, which may unpack to that many bytes."""
        total, upto = self.limits.total, self.written + archive
        if upto < total:
            return _ByteBudget(upto, f"its archive unpacks to over {archive >> 20} MiB")
        return _ByteBudget(total, f"all unpacked files together are over {total >> 20} MiB")

    def _walk_folder(self, folder: Path) -> Iterator[Item]:
        """List a folder without recursion: a student may nest folders as deep as paths allow."""
        todo = [(folder, PurePosixPath())]
        while todo:
            current, at = todo.pop()
            try:
                wanted = (entry for entry in current.iterdir() if not is_skipped(entry.name))
                listed = sorted(wanted, key=lambda p: p.name)
                folders = [e for e in listed if e.is_dir() and not e.is_symlink()]
            except OSError as error:
                if current == folder:
                    raise
                yield Item(at, None, f"is a folder that cannot be read: {error.strerror}")
                continue
            below = {entry.name for entry in folders}
            todo += [(e, at / e.name) for e in reversed(folders)]
            for entry in listed:
                path = at / entry.name
                if entry.name not in below and _is_wanted(path):
                    why = explain_other_kind(entry.name) if _is_of_other_kind(path) else ""
                    yield Item(path, None if why else entry, why)

    def _copy_archive(self, archive: Path) -> Path:
        """Copy a student's archive as carefully as a submission. Raises UnreadableSubmission."""
        if archive.parent == self.folder:
            return archive
        data = read_carefully(archive, self.limits.member)
        copy = self._allocate_path(ARCHIVE)
        files.write(copy, data)
        return copy

    def _extract_archive(
        self, item: Item, at: PurePosixPath, budget: "_ByteBudget"
    ) -> Iterator[Item]:
        assert item.file is not None
        try:
            with zipfile.ZipFile(item.file) as archive:
                listed = archive.infolist()
                if len(listed) > self.limits.members:
                    over = f"{len(listed)} members, over the limit of {self.limits.members}"
                    yield Item(item.path, None, f"lists {over}")
                    return
                yield from self._extract_members(archive, listed, at, budget)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            yield Item(item.path, None, f"is not a readable zip archive: {error}")

    def _extract_members(
        self,
        archive: zipfile.ZipFile,
        listed: Iterable[zipfile.ZipInfo],
        at: PurePosixPath,
        budget: "_ByteBudget",
    ) -> Iterator[Item]:
        seen: set[PurePosixPath] = set()
        for member in listed:
            path = _parse_member_path(member)
            if member.is_dir() or not _is_wanted(path) or any(map(is_skipped, path.parts)):
                continue
            name = at / _strip_escapes(path)
            problem = "is in the archive twice" if path in seen else _find_refusal(member, path)
            if at.parts and path.suffix.lower() == ARCHIVE:
                problem = "is an archive inside an archive; unpack it"
            seen.add(path)
            if problem or _is_of_other_kind(path):
                yield Item(name, None, problem or explain_other_kind(path.name))
            else:
                yield self._extract_member(archive, member, name, budget)

    def _extract_member(
        self,
        archive: zipfile.ZipFile,
        member: zipfile.ZipInfo,
        name: PurePosixPath,
        budget: "_ByteBudget",
    ) -> Item:
        """Copy one member, as far as the limits allow."""
        copy = self._allocate_path(name.suffix.lower())
        try:
            with archive.open(member) as source, copy.open("xb") as target:
                self._copy(source, target, budget)
        except UnreadableSubmission as error:
            copy.unlink()
            return Item(name, None, str(error))
        except OSError as error:
            copy.unlink(missing_ok=True)
            if error.errno in files.NO_SPACE_ERRNOS:  # our disk is full: not the archive's fault
                raise files.make_write_error(self.folder, error) from None
            return Item(name, None, f"cannot be unpacked: {error}")
        # What zipfile and zlib raise for damaged or forged archives.
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError) as error:
            copy.unlink(missing_ok=True)
            return Item(name, None, f"cannot be unpacked: {error}")
        return Item(name, copy)

    def _copy(self, source: IO[bytes], target: IO[bytes], budget: "_ByteBudget") -> None:
        size = 0
        while chunk := source.read(CHUNK):
            size += len(chunk)
            self.written += len(chunk)
            if size > self.limits.member:
                raise UnreadableSubmission(f"unpacks to more than {self.limits.member >> 20} MiB")
            if self.written > budget.limit:
                raise UnreadableSubmission(budget.message)
            target.write(chunk)

    def _allocate_path(self, suffix: str) -> Path:
        self.count += 1
        return self.folder / f"{self.count:06d}{suffix}"


@dataclass(frozen=True, slots=True)
class _ByteBudget:
    """The total bytes that may be written up to an archive's end, and the message beyond it."""

    limit: int
    message: str


def list_top_level(path: Path) -> dict[str, bool]:
    """Return the names in the outermost folder of a download, and which of them are folders.

    The names include files that are not submissions, since these also identify a student.
    """
    if path.is_dir():
        names = {entry.name: entry.is_dir() for entry in path.iterdir()}
    elif path.suffix.lower() == ARCHIVE:
        names = _list_archive_top_level(path)
    else:
        names = {path.name: False}
    return {k: v for k, v in names.items() if k[0] != "." and not is_skipped(k)}


def _list_archive_top_level(archive: Path) -> dict[str, bool]:
    """List an archive in the same way; `list_items` reports it if it is unreadable."""
    names: dict[str, bool] = {}
    try:
        with zipfile.ZipFile(archive) as opened:
            for member in opened.infolist():
                first, *below = _strip_escapes(_parse_member_path(member)).parts or ("",)
                names[first] = names.get(first, False) or bool(below) or member.is_dir()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return {}
    names.pop("", None)
    return names


def is_archive(item: Item) -> bool:
    """Return whether an item is an archive."""
    return item.path.suffix.lower() == ARCHIVE


def _strip_archive_suffix(archive: PurePosixPath) -> PurePosixPath:
    """Return an archive's name as a folder, `ada` for `ada.zip`; `..zip` is left unchanged."""
    name = archive.name[: -len(ARCHIVE)]
    return archive.parent / (name if name.strip(".") else archive.name)


def _parse_member_path(member: zipfile.ZipInfo) -> PurePosixPath:
    return PurePosixPath(member.filename.replace("\\", "/"))


def _is_wanted(path: PurePosixPath) -> bool:
    known = path.suffix.lower() in (*KIND_BY_SUFFIX, ARCHIVE) or path.name in METADATA
    return known or _is_of_other_kind(path)


def _is_of_other_kind(path: PurePosixPath) -> bool:
    return path.name not in METADATA and is_of_other_kind(path.name)


def _strip_escapes(path: PurePosixPath) -> PurePosixPath:
    """Drop parts that lead out of the archive: the name, though only text, is shown and parsed."""
    return PurePosixPath(*(part for part in path.parts if part not in ("/", "//", "..")))


def _find_refusal(member: zipfile.ZipInfo, path: PurePosixPath) -> str:
    """Return why a member is rejected, or "" if it is accepted."""
    drive = path.parts[0].endswith(":") if path.parts else False
    if path.is_absolute() or ".." in path.parts or drive:
        return "has a name that points outside the archive"
    kind = stat.S_IFMT(member.external_attr >> 16)
    if kind not in (0, stat.S_IFREG):
        return "is not a regular file in the archive"
    if member.flag_bits & 1:
        return "is encrypted"
    if member.compress_type not in METHODS:
        return "is compressed by a method other than deflate"
    return ""
