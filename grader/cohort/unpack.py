"""Archives that strangers made, taken apart member by member.

Theory. No name in an archive ever names a file of ours: a member is written under a number into
a private folder, and what it was called is remembered as text. So it cannot leave the folder, be
a link, replace another member, or have a name that a file system refuses. Sizes are counted while
reading, because the sizes that an archive states are its author's. Only what can be a
submission is written at all.
"""

import stat
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from grader import files
from grader.submission import KINDS, SKIPPED, Submission, Unopened
from grader.submission import read as read_carefully

ARCHIVE = ".zip"
METADATA = frozenset(("submission_metadata.yml", "timestamp.txt"))
"""what Gradescope and nbgrader write beside submissions"""
CHUNK = 1 << 16
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""the others let an archive choose how much memory its reader needs"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """How much of an archive is taken. Bytes."""

    member: int = 64 << 20
    """one member; a submission has a limit of its own, below this"""
    total: int = 8 << 30
    """all members of all archives of a run"""
    members: int = 100_000
    """how many members one archive may list"""
    depth: int = 2
    """archives in archives: a student's in the download of a class"""


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
    caps: Caps
    written: int = 0
    count: int = 0

    def items(self, path: Path) -> Iterator[Item]:
        """What lies in a folder, in an archive, or at a path; archives are taken apart."""
        if path.is_dir():
            yield from self._in_folder(path, PurePosixPath())
        elif path.suffix.lower() == ARCHIVE:
            yield from self._in_file(path, PurePosixPath(), depth=1)
        else:
            yield Item(PurePosixPath(path.name), path)

    def _in_folder(self, folder: Path, at: PurePosixPath) -> Iterator[Item]:
        for entry in sorted(folder.iterdir(), key=lambda p: p.name):
            name = at / entry.name
            if entry.is_dir() and not entry.is_symlink():
                if entry.name not in SKIPPED:
                    yield from self._in_folder(entry, name)
            elif entry.suffix.lower() == ARCHIVE:
                try:
                    copied = self._copied(entry)
                except Unopened as unopened:
                    yield Item(name, None, str(unopened))
                else:
                    yield from self._in_file(copied, name.with_suffix(""), depth=2, shown=name)
            elif _wanted(name):
                yield Item(name, entry)

    def _copied(self, archive: Path) -> Path:
        """A student's archive, opened with the care for submissions. Raises Unopened."""
        data = read_carefully(Submission(archive, archive.name), self.caps.member)
        copy = self._place(ARCHIVE)
        files.write(copy, data)
        return copy

    def _in_file(
        self, path: Path, at: PurePosixPath, depth: int, shown: PurePosixPath | None = None
    ) -> Iterator[Item]:
        called = PurePosixPath(path.name) if shown is None else shown
        try:
            with zipfile.ZipFile(path) as archive:
                yield from self._members(archive, at, called, depth)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            yield Item(called, None, f"is no zip archive that can be read: {error}")

    def _members(
        self, archive: zipfile.ZipFile, at: PurePosixPath, called: PurePosixPath, depth: int
    ) -> Iterator[Item]:
        listed = archive.infolist()
        if len(listed) > self.caps.members:
            text = f"lists {len(listed)} members, over the limit of {self.caps.members}"
            yield Item(called, None, text)
            return
        seen: set[PurePosixPath] = set()
        for member in listed:
            if member.is_dir():
                continue
            path = PurePosixPath(member.filename.replace("\\", "/"))
            if not _wanted(path) or SKIPPED & set(path.parts) or _litter(path):
                continue
            name = at / _inside(path)
            problem = "is in the archive twice" if path in seen else _refused(member, path)
            seen.add(path)
            if problem:
                yield Item(name, None, problem)
            elif path.suffix.lower() != ARCHIVE:
                yield self._taken(archive, member, name)
            elif depth >= self.caps.depth:
                yield Item(name, None, "is an archive in an archive in an archive; unpack it")
            else:
                item = self._taken(archive, member, name)
                if item.file is None:
                    yield item
                else:
                    yield from self._in_file(item.file, name.with_suffix(""), depth + 1, name)

    def _taken(
        self, archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: PurePosixPath
    ) -> Item:
        """One member, copied as far as the caps allow."""
        place = self._place(name.suffix.lower())
        try:
            with archive.open(member) as source, place.open("xb") as target:
                self._copy(source, target)
        except Unopened as unopened:
            place.unlink()
            return Item(name, None, str(unopened))
        except OSError as error:
            place.unlink(missing_ok=True)
            if error.errno in files.FULL:  # a disk of ours: no archive is bad for that
                raise files.not_written(self.folder, error) from None
            return Item(name, None, f"cannot be unpacked: {error}")
        # What a damaged or forged archive makes zipfile and zlib raise.
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError) as e:
            place.unlink(missing_ok=True)
            return Item(name, None, f"cannot be unpacked: {e}")
        return Item(name, place)

    def _copy(self, source: IO[bytes], target: IO[bytes]) -> None:
        size = 0
        while chunk := source.read(CHUNK):
            size += len(chunk)
            self.written += len(chunk)
            if size > self.caps.member:
                raise Unopened(f"unpacks to more than {self.caps.member >> 20} MiB")
            if self.written > self.caps.total:
                raise Unopened(f"all that was unpacked is over {self.caps.total >> 20} MiB")
            target.write(chunk)

    def _place(self, suffix: str) -> Path:
        self.count += 1
        return self.folder / f"{self.count:06d}{suffix}"


def _wanted(path: PurePosixPath) -> bool:
    return path.suffix.lower() in (*KINDS, ARCHIVE) or path.name in METADATA


def _inside(path: PurePosixPath) -> PurePosixPath:
    """A member's name without what would lead out: it is only text, but it is shown and parsed."""
    return PurePosixPath(*(part for part in path.parts if part not in ("/", "..", ".")))


def _litter(path: PurePosixPath) -> bool:
    """What macOS adds to archives, beside every file."""
    return "__MACOSX" in path.parts or path.name.startswith("._")


def _refused(member: zipfile.ZipInfo, path: PurePosixPath) -> str:
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
