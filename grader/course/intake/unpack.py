"""Archives that strangers made, taken apart member by member.

Theory. No name in an archive ever names a file of ours: a member is written under a number into
a private folder, and what it was called is remembered as text. So it cannot leave the folder, be
a link, replace another member, or have a name that a file system refuses. Sizes are counted while
reading, because the sizes that an archive states are its author's. Only what can be a
submission is written at all.

A download is listed first, down to the archives in it: these names the course system wrote. A
student's archive is opened afterwards, when it is known whose it is, so that nothing in it can say
so.
"""

import stat
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from grader import files
from grader.reading.submission import (
    KIND_BY_SUFFIX,
    SKIPPED_FOLDERS,
    Submission,
    UnreadableSubmission,
)
from grader.reading.submission import read_submission as read_carefully

ARCHIVE = ".zip"
METADATA = frozenset(("submission_metadata.yml", "timestamp.txt"))
"""what Gradescope and nbgrader write beside submissions"""
CHUNK = 1 << 16
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""the others let an archive choose how much memory its reader needs"""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpackLimits:
    """How much of an archive is taken. Bytes."""

    member: int = 64 << 20
    """one member; a submission has a limit of its own, below this"""
    total: int = 8 << 30
    """all members of all archives of a run"""
    archive: int = 256 << 20
    """all members of one archive that a student handed in, so that nobody uses up the total"""
    members: int = 100_000
    """how many members one archive may list"""


@dataclass(frozen=True, slots=True)
class Item:
    """One file that was found: what it was called, and where its bytes are or why they are not."""

    path: PurePosixPath
    file: Path | None
    problem: str = ""


@dataclass(eq=False)
class Unpacker:
    """Puts what archives hold into a folder of our own."""

    folder: Path
    limits: UnpackLimits
    written: int = 0
    count: int = 0

    def list_items(self, path: Path) -> Iterator[Item]:
        """What a folder or an archive lists, or the file itself; archives in it stay closed."""
        if path.is_dir():
            yield from self._walk_folder(path)
        elif path.suffix.lower() == ARCHIVE:
            called = Item(PurePosixPath(path.name), path)
            yield from self._extract_archive(
                called, PurePosixPath(), self._reserve_budget(self.limits.total)
            )
        else:
            yield Item(PurePosixPath(path.name), path)

    def open_item(self, item: Item) -> Iterator[Item]:
        """What somebody handed in: a file as it is; an archive as the folder that it holds."""
        if item.file is None or not is_archive(item):
            yield item
            return
        try:
            place = self._copy_archive(item.file)
        except UnreadableSubmission as unopened:
            yield Item(item.path, None, str(unopened))
            return
        budget = self._reserve_budget(self.limits.archive)
        yield from self._extract_archive(
            Item(item.path, place), _strip_archive_suffix(item.path), budget
        )

    def _reserve_budget(self, archive: int) -> "_ByteBudget":
        """For the next archive, which may unpack to so many bytes."""
        total = self.limits.total
        if self.written + archive < total:
            text = f"all in its archive unpacks to over {archive >> 20} MiB"
            return _ByteBudget(self.written + archive, text)
        return _ByteBudget(total, f"all that was unpacked is over {total >> 20} MiB")

    def _walk_folder(self, folder: Path) -> Iterator[Item]:
        """A list of folders to do, no recursion: a student may nest them as deep as paths go."""
        todo = [(folder, PurePosixPath())]
        while todo:
            place, at = todo.pop()
            try:
                listed = sorted(place.iterdir(), key=lambda p: p.name)
                folders = [e for e in listed if e.is_dir() and not e.is_symlink()]
            except OSError as error:
                if place == folder:
                    raise
                yield Item(at, None, f"is a folder that cannot be read: {error.strerror}")
                continue
            below = {entry.name for entry in folders}
            todo += [(e, at / e.name) for e in reversed(folders) if e.name not in SKIPPED_FOLDERS]
            for entry in listed:
                if entry.name not in below and _is_wanted(at / entry.name):
                    yield Item(at / entry.name, entry)

    def _copy_archive(self, archive: Path) -> Path:
        """A student's archive, opened with the care for submissions. Raises Unopened."""
        if archive.parent == self.folder:
            return archive
        data = read_carefully(Submission(archive, archive.name), self.limits.member)
        copy = self._allocate_path(ARCHIVE)
        files.write(copy, data)
        return copy

    def _extract_archive(
        self, called: Item, at: PurePosixPath, budget: "_ByteBudget"
    ) -> Iterator[Item]:
        assert called.file is not None
        try:
            with zipfile.ZipFile(called.file) as archive:
                listed = archive.infolist()
                if len(listed) > self.limits.members:
                    over = f"{len(listed)} members, over the limit of {self.limits.members}"
                    yield Item(called.path, None, f"lists {over}")
                    return
                yield from self._extract_members(archive, listed, at, budget)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            yield Item(called.path, None, f"is no zip archive that can be read: {error}")

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
            if (
                member.is_dir()
                or not _is_wanted(path)
                or SKIPPED_FOLDERS & set(path.parts)
                or _is_macos_metadata(path)
            ):
                continue
            name = at / _strip_escapes(path)
            problem = "is in the archive twice" if path in seen else _find_refusal(member, path)
            if at.parts and path.suffix.lower() == ARCHIVE:
                problem = "is an archive in an archive that was handed in; unpack it"
            seen.add(path)
            yield (
                Item(name, None, problem)
                if problem
                else self._extract_member(archive, member, name, budget)
            )

    def _extract_member(
        self,
        archive: zipfile.ZipFile,
        member: zipfile.ZipInfo,
        name: PurePosixPath,
        budget: "_ByteBudget",
    ) -> Item:
        """One member, copied as far as the caps allow."""
        place = self._allocate_path(name.suffix.lower())
        try:
            with archive.open(member) as source, place.open("xb") as target:
                self._copy(source, target, budget)
        except UnreadableSubmission as unopened:
            place.unlink()
            return Item(name, None, str(unopened))
        except OSError as error:
            place.unlink(missing_ok=True)
            if error.errno in files.NO_SPACE_ERRNOS:  # a disk of ours: no archive is bad for that
                raise files.make_write_error(self.folder, error) from None
            return Item(name, None, f"cannot be unpacked: {error}")
        # What a damaged or forged archive makes zipfile and zlib raise.
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError) as e:
            place.unlink(missing_ok=True)
            return Item(name, None, f"cannot be unpacked: {e}")
        return Item(name, place)

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
    """How many bytes may have been written when an archive ends, and what is said beyond."""

    limit: int
    message: str


def list_top_level(path: Path) -> dict[str, bool]:
    """The names in the outermost folder of a download, and which of them are folders.

    Also of what is no submission: who handed in something else is there, too.
    """
    if path.is_dir():
        found = {entry.name: entry.is_dir() for entry in path.iterdir()}
    elif path.suffix.lower() == ARCHIVE:
        found = _list_archive_top_level(path)
    else:
        found = {path.name: False}
    litter = {"__MACOSX", *SKIPPED_FOLDERS}
    return {
        name: is_folder
        for name, is_folder in found.items()
        if name[0] != "." and name not in litter
    }


def _list_archive_top_level(archive: Path) -> dict[str, bool]:
    """The same of an archive; nothing of one that cannot be read, which `items` says."""
    found: dict[str, bool] = {}
    try:
        with zipfile.ZipFile(archive) as opened:
            for member in opened.infolist():
                first, *below = _strip_escapes(_parse_member_path(member)).parts or ("",)
                found[first] = found.get(first, False) or bool(below) or member.is_dir()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return {}
    found.pop("", None)
    return found


def is_archive(item: Item) -> bool:
    """Whether it is somebody's archive, which is opened once it is known whose."""
    return item.path.suffix.lower() == ARCHIVE


def _strip_archive_suffix(archive: PurePosixPath) -> PurePosixPath:
    """What an archive is shown as, `ada` for `ada.zip`; of `..zip` nothing would be left."""
    name = archive.name[: -len(ARCHIVE)]
    return archive.parent / (name if name.strip(".") else archive.name)


def _parse_member_path(member: zipfile.ZipInfo) -> PurePosixPath:
    return PurePosixPath(member.filename.replace("\\", "/"))


def _is_wanted(path: PurePosixPath) -> bool:
    return path.suffix.lower() in (*KIND_BY_SUFFIX, ARCHIVE) or path.name in METADATA


def _strip_escapes(path: PurePosixPath) -> PurePosixPath:
    """A member's name without what would lead out: it is only text, but it is shown and parsed."""
    return PurePosixPath(*(part for part in path.parts if part not in ("/", "//", "..")))


def _is_macos_metadata(path: PurePosixPath) -> bool:
    """What macOS adds to archives, beside every file."""
    return "__MACOSX" in path.parts or path.name.startswith("._")


def _find_refusal(member: zipfile.ZipInfo, path: PurePosixPath) -> str:
    """Why a member is not taken, if so."""
    drive = path.parts[0].endswith(":") if path.parts else False
    if path.is_absolute() or ".." in path.parts or drive:
        return "has a name that leads out of the archive"
    kind = stat.S_IFMT(member.external_attr >> 16)
    if kind not in (0, stat.S_IFREG):
        return "is no regular file in the archive"
    if member.flag_bits & 1:
        return "is encrypted"
    if member.compress_type not in METHODS:
        return "is compressed by a method other than deflate"
    return ""
