"""Find submissions from paths on the command line, and read their bytes.

Opening is careful: a submission may be a link, a pipe or a device, and the reader neither follows a
link nor waits for a pipe or a device.
"""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from headcheck.grader import UserError

# Not every system has each of these; all but the first are there on Linux.
_FLAGS = os.O_RDONLY | sum(
    getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")
)
KIND_BY_SUFFIX = {".ipynb": "ipynb", ".py": "py"}
OTHER_SUFFIXES = frozenset((
    ".txt", ".pdf", ".doc", ".docx", ".odt", ".rtf", ".html", ".htm", ".rar", ".7z", ".tar", ".gz",
))  # fmt: skip
"""the suffixes of files that students hand in by mistake; files with other suffixes, such as data,
do not count as anybody's work"""
NOBODYS_FILES = frozenset(("requirements.txt", "constraints.txt", "readme.txt", "license.txt"))
SKIPPED_FOLDERS = frozenset((
    "__pycache__", ".ipynb_checkpoints", ".git", ".venv", "venv", "site-packages", "node_modules",
    "__MACOSX",
))  # fmt: skip


class SubmissionNotFound(UserError):
    """A path leads to no submission; the message says why and what to do."""


class UnreadableSubmission(Exception):
    """A file cannot be read as a submission; the message says why."""


@dataclass(frozen=True, slots=True)
class Sibling:
    """A file beside a submission: the names of the folders that lead to it, and its own name."""

    path: tuple[str, ...]
    data: bytes


@dataclass(frozen=True, slots=True)
class Siblings:
    """The files that a submission imports."""

    main: tuple[str, ...] = ()
    """the place of the submission itself: the names of its folders, and its own module name"""
    files: tuple[Sibling, ...] = ()
    problems: tuple[tuple[str, str], ...] = ()
    """files that were left out, and why"""
    searched: bool = False
    """whether the files beside the submission belong to its author, and were searched for imports
    """

    @property
    def size(self) -> int:
        """Return the total size of all files in bytes."""
        return sum(len(file.data) for file in self.files)


NO_SIBLINGS = Siblings()
FilesByPath = Mapping[tuple[str, ...], Path]
"""the path of each file, by the names that its author gave to its folders and to itself"""


@dataclass(frozen=True, slots=True)
class Submission:
    """One submitted file, and the definition in it to grade, if the caller names one."""

    path: Path
    display_path: str
    name: str | None = None
    submitted_by: str | None = None
    """who submitted the file, if anything but the file name tells it"""
    folder: Path | None = field(default=None, compare=False)
    """the folder whose files all belong to the submission's author, and may be imported"""
    shared: bool = field(default=False, compare=False)
    """whether that folder may nevertheless be shared by a class of students; a file in it that
    answers the same exercise is then not imported"""
    beside: FilesByPath | None = field(default=None, compare=False)
    """used instead of `folder`: the author's files, this one included, by the paths that the author
    gave them"""
    siblings: Siblings | None = field(default=None, compare=False)
    """the files beside the submission that it imports, if they have already been gathered"""

    @property
    def student(self) -> str:
        """The submitter: from the course, else the stem of the file name."""
        return Path(self.display_path).stem if self.submitted_by is None else self.submitted_by

    @property
    def kind(self) -> str:
        """`ipynb` or `py`; `none` if the file is neither and so cannot be read."""
        return KIND_BY_SUFFIX.get(self.path.suffix.lower(), "none")


def find_submissions(
    arguments: Sequence[str],
    missing: list[tuple[str, str]] | None = None,
    *,
    shared: bool = False,
) -> list[Submission]:
    """Return the submissions that paths stand for: files, folders of files, and FILE:NAME.

    With `shared`, the folders may be shared by a class of students; without it, the submissions
    are one person's own work. Raises SubmissionNotFound for a path that does not exist, is of
    another kind, or holds no submission. With `missing`, such paths are listed there with their
    problem, and it raises only if nothing is found at all.
    """
    found: list[Submission] = []
    for argument in arguments:
        try:
            expanded = _expand_argument(argument, alone=len(arguments) == 1, shared=shared)
            found.extend(replace(each, shared=shared) for each in expanded)
        except SubmissionNotFound as problem:
            if missing is None:
                raise
            missing.append((argument, str(problem)))
    if missing and not found:
        raise SubmissionNotFound(missing[0][1])
    return found


def _expand_argument(argument: str, *, alone: bool, shared: bool) -> Iterator[Submission]:
    """Yield the submissions of one argument; `alone` says that it is the only argument.

    The folder of a file that is the only argument belongs to the file's author, and so does the
    repository that it lies in unless a class may share it. Several files, and files side by side in
    a folder, may belong to a whole class. All files in a subfolder belong to one author.
    """
    path, name = Path(argument), None
    if not path.exists() and ":" in argument:
        before, _, after = argument.rpartition(":")
        if after.isidentifier():
            path, name = Path(before), after
    if path.is_dir():
        found = list(_walk_folder(path))
        if not found:
            kinds = "they are .ipynb and .py files"
            raise SubmissionNotFound(f"{path}: no submissions in this folder; {kinds}")
        yield from found
    elif not path.exists() and not path.is_symlink():
        raise SubmissionNotFound(f"{path}: no such file or folder")
    elif path.suffix.lower() not in KIND_BY_SUFFIX:
        raise SubmissionNotFound(f"{path}: a submission is a .ipynb or a .py file")
    else:
        folder = find_import_folder(path) if alone else None
        if folder is not None and not shared:
            around = (each for each in (folder, *folder.parents) if (each / ".git").exists())
            folder = next(around, folder)
        yield Submission(path, escape_path(path), name, folder=folder)


def _walk_folder(folder: Path, owned: Path | None = None) -> Iterator[Submission]:
    """Yield the submissions in a folder; `owned` is the folder around it that one author owns.

    Files of other kinds are included only if an author handed in nothing else.
    """
    for entry in sorted(folder.iterdir(), key=lambda p: p.name):
        if is_skipped(entry.name):
            continue
        if entry.is_dir() and not entry.is_symlink():
            found = list(_walk_folder(entry, owned or entry))
            known = [each for each in found if each.kind != "none"]
            yield from (known or found) if owned is None else found
        elif entry.suffix.lower() in KIND_BY_SUFFIX or is_of_other_kind(entry.name):
            yield Submission(entry, escape_path(entry), folder=owned)


def is_of_other_kind(name: str) -> bool:
    """Return whether a file of this name may have been handed in but cannot be a submission."""
    return Path(name).suffix.lower() in OTHER_SUFFIXES and name.lower() not in NOBODYS_FILES


def explain_other_kind(name: str) -> str:
    """Say why a file of this name is not judged, and what to hand in instead."""
    stem, suffix = Path(name).stem, Path(name).suffix
    if Path(stem).suffix.lower() in KIND_BY_SUFFIX:
        return f"ends in {suffix}: hand it in under the name {stem}"
    return f"is no notebook and no module ({suffix}): hand in the .ipynb or .py file"


def is_skipped(name: str) -> bool:
    """Return whether a file or folder of this name is never a student's work.

    Tools create such folders, and macOS writes `._attention.py` beside `attention.py`.
    """
    return name in SKIPPED_FOLDERS or name.startswith("._")


def find_import_folder(path: Path) -> Path:
    """Return the folder of a file or, for a package, the outermost one."""
    folder = path.absolute().parent
    while is_regular_file(folder / "__init__.py") and is_regular_file(
        folder.parent / "__init__.py"
    ):
        folder = folder.parent
    return folder


def is_regular_file(path: Path) -> bool:
    """Return whether the path is a regular file and not a link."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (OSError, ValueError):  # nothing there, or no name that the system can have
        return False


def escape_path(path: Path) -> str:
    """Return a path as text that can be written anywhere: bytes that are not UTF-8 are escaped."""
    return str(path).encode("utf-8", "backslashreplace").decode("utf-8")


def read_submission(submission: Submission, limit: int) -> bytes:
    """Return the bytes of a submission, never more than `limit`.

    Raises UnreadableSubmission for anything but a readable regular file of at most that size.
    """
    if submission.kind == "none":
        raise UnreadableSubmission(explain_other_kind(submission.path.name))
    return read_carefully(submission.path, limit)


def read_carefully(path: Path, limit: int) -> bytes:
    """Return the bytes of a file, as `read_submission` does. Raises UnreadableSubmission."""
    try:
        fd = os.open(path, _FLAGS)
    except OSError as error:
        if path.is_symlink():
            raise UnreadableSubmission("is a symbolic link; hand in the file itself") from None
        raise UnreadableSubmission(f"cannot be opened: {error.strerror}") from None
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableSubmission("is no regular file")
        if status.st_size > limit:
            size = f"{status.st_size / (1 << 20):.0f} MiB"
            raise UnreadableSubmission(
                f"is {size} large, over the limit of {limit >> 20} MiB; clear its outputs"
            )
        return file.read(limit + 1)[:limit]
