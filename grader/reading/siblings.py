"""Gather the files beside a submission that it imports, without parsing or running any.

A file may say `from utils import mask`, `from .attention import Head` or `from pkg.sub import y`.
The files of these names are looked up as Python does it: relative to the importing file, or in the
folders around the submission, beginning with the submission's own folder. Nothing outside the
folder of the submission's author is looked at, and no link is followed.

A regular expression finds the imported names in the bytes, since untrusted files are parsed only in
the child process. It also finds names in comments and strings. This is harmless: a superfluous file
is sent and not used.

Everything here depends only on the files, so that the same files always give the same siblings.
"""

import functools
import itertools
import re
import sys
from collections import deque
from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from headcheck.grader.reading.submission import (
    KIND_BY_SUFFIX,
    NO_SIBLINGS,
    FilesByPath,
    Sibling,
    Siblings,
    Submission,
    UnreadableSubmission,
    is_regular_file,
    read_carefully,
)

MAX_FILES = 64
"""at most this many files beside a submission are gathered"""
MAX_DEPTH = 8
"""files are taken from at most this many levels of folders"""
MAX_RIVALS, MAX_RIVAL_SIZE = 1000, 20 << 20
"""at most this many files beside a sibling are examined, each of at most this many bytes"""
MAX_IMPORTS = 2000
"""at most this many different imports of one submission are followed"""
_GAP = rb"[ \t]{1,20}"
# In a notebook a line may begin after the two characters `\n`.
_NAMES = rb"(\([\w\s,*\\\"]{0,400}|[\w, \t]{0,400})"
_IMPORTS = re.compile(
    rb"(?:\b|\\n)(?:from%b(\.{0,9})([\w.]{0,200})[ \t]{0,20}\bimport\b[ \t]{0,20}%b"
    rb"|import%b([\w., \t]{1,400}))" % (_GAP, _NAMES, _GAP)
)
# In a notebook a line begins after a quotation mark or the two characters `\n`.
_DEFINED = re.compile(rb'(?:^|\\n|")(?:class|def)[ \t]+([A-Za-z_]\w{0,99})', re.MULTILINE)
_WORD = re.compile(rb"[A-Za-z_]\w{0,99}")

Place = tuple[str, ...]
"""names of folders, and of a module at the end, below the outermost folder"""


def gather_siblings(
    submission: Submission, data: bytes, limit: int, entries: Set[str] = frozenset()
) -> Siblings:
    """Return the files that a submission with these bytes imports, at most `limit` bytes in total.

    `entries` are the names of the definitions that exercises ask for. In a folder that a class of
    students may share, a file is not taken if both it and another file beside it define one of
    these names: the file may be somebody else's answer.
    """
    if submission.siblings is not None:
        return submission.siblings
    tree, main = _open_tree(submission)
    if tree is None:
        return NO_SIBLINGS
    asked = entries if submission.shared else frozenset[str]()
    gathering = _Gathering(tree, main[:-1], limit - len(data), asked)
    gathering.follow(main[:-1], data)
    taken = (Sibling(path, found) for path, found in sorted(gathering.taken.items()))
    problems = tuple(sorted(gathering.problems.items()))
    return Siblings(main, tuple(taken), problems, searched=True)


def _open_tree(submission: Submission) -> tuple["_Tree | None", Place]:
    """Return the author's files, if they are known, and the submission's place among them."""
    path = submission.path.absolute()
    if submission.beside is not None:
        return _list_tree(submission.beside, submission.path)
    if submission.folder is None:
        return None, ()
    owned = submission.folder.absolute()
    top, folders = _find_top(path.parent, owned)
    return _DiskTree(top, folders, top.is_relative_to(owned)), (*folders, _name_module(path.name))


def _list_tree(files: FilesByPath, path: Path) -> tuple["_Tree | None", Place]:
    own = next((place for place, file in files.items() if file == path), None)
    if not own:
        return None, ()
    length = len(own) - 1  # of the folders that are left out, since no import can name them
    while length > 0 and len(own) - length <= MAX_DEPTH and is_module_name(own[length - 1]):
        length -= 1
    inside = {p[length:]: file for p, file in files.items() if p[:length] == own[:length]}
    return _ListedTree(inside), (*own[length:-1], _name_module(own[-1]))


def _find_top(folder: Path, owned: Path) -> tuple[Path, Place]:
    """Return the outermost folder in which names are looked up, and the path from there.

    This is the author's folder, or the folder around it if the author's folder is itself a package.
    The search does not go above a folder whose name cannot occur in an import.
    """
    names: list[str] = []
    while len(names) < MAX_DEPTH and is_module_name(folder.name):
        is_package = is_regular_file(folder / "__init__.py")
        if not folder.is_relative_to(owned) or (folder == owned and not is_package):
            break
        names.insert(0, folder.name)
        folder = folder.parent
    return folder, tuple(names)


def is_module_name(name: str) -> bool:
    """Return whether a module may have this name; only ASCII letters are allowed."""
    return _WORD.fullmatch(name.encode(errors="replace")) is not None


class _Tree(Protocol):
    """The files of an author."""

    def is_folder(self, place: Place) -> bool:
        """Return whether all of these names are folders of the author, and none is a link."""

    def find_file(self, place: Place) -> Path | None:
        """Return the file at this place in a folder of the author's; it may be a link."""


@dataclass(frozen=True)
class _DiskTree:
    """The author's files in a folder on disk."""

    top: Path
    folders: Place
    """the path to the submission"""
    is_open: bool
    """whether the whole outermost folder is the author's; otherwise only `folders` in it are"""

    def is_folder(self, place: Place) -> bool:
        if not place:
            return self.is_open
        if place == self.folders[: len(place)]:
            return True
        path = self.top.joinpath(*place)
        inside = len(place) <= MAX_DEPTH and self.is_folder(place[:-1])
        return inside and path.is_dir() and not path.is_symlink()

    def find_file(self, place: Place) -> Path | None:
        path = self.top.joinpath(*place)
        return path if path.is_symlink() or is_regular_file(path) else None


@dataclass(frozen=True)
class _ListedTree:
    """The author's files if they were unpacked, or are stored under other names."""

    files: FilesByPath

    def is_folder(self, place: Place) -> bool:
        return any(path[: len(place)] == place for path in self.files if len(path) > len(place))

    def find_file(self, place: Place) -> Path | None:
        return self.files.get(place)


def _name_module(file: str) -> str:
    """Return the module name of the submission's own file, which may have any name."""
    stem = file.rpartition(".")[0]
    return stem if is_module_name(stem) else "submission"


@dataclass(eq=False)
class _Gathering:
    """The files found so far."""

    tree: _Tree
    folders: Place
    """the path to the submission"""
    left: int
    """how many more bytes may be taken"""
    entries: Set[str]
    """two files in the same folder that define one of these names are rivals, and neither is taken
    """
    taken: dict[Place, bytes] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)

    def follow(self, folders: Place, data: bytes) -> None:
        """Take the files that a file in this folder imports, directly or indirectly."""
        seen: set[tuple[Place, int, Place]] = set()
        todo = deque([(folders, data)])
        while todo:
            inside, text = todo.popleft()
            for level, names in _iter_imports(text):
                if len(seen) >= MAX_IMPORTS:
                    return
                key = (inside if level else (), level, names)
                base = None if key in seen else self._find_base(inside, level, names)
                seen.add(key)
                if base is not None:
                    todo.extend(self._take_module((*base, *names)))

    def _find_base(self, inside: Place, level: int, names: Place) -> Place | None:
        """Return the folder from which an import is looked up; None if there is no such folder."""
        if level:
            return inside[: len(inside) - level + 1] if level <= len(inside) + 1 else None
        if names[0] in sys.stdlib_module_names:
            return None
        bases = (self.folders[:length] for length in range(len(self.folders), -1, -1))
        return next((base for base in bases if self._exists((*base, names[0]))), None)

    def _exists(self, place: Place) -> bool:
        module = (*place[:-1], f"{place[-1]}.py")
        inside = self.tree.is_folder(place[:-1])
        return self.tree.is_folder(place) or (inside and self.tree.find_file(module) is not None)

    def _take_module(self, place: Place) -> Iterator[tuple[Place, bytes]]:
        """Take a module and the packages that contain it; yield the folder and bytes of each."""
        for length in range(1, len(place) + 1):
            if self.tree.is_folder(place[:length]):
                yield from self._take_file((*place[:length], "__init__.py"))
        if self.tree.is_folder(place[:-1]):
            yield from self._take_file((*place[:-1], f"{place[-1]}.py"))

    def _take_file(self, place: Place) -> Iterator[tuple[Place, bytes]]:
        name = "/".join(place)
        file = self.tree.find_file(place)
        if place in self.taken or name in self.problems or file is None:
            return
        rival = _find_rival(file, self.entries)
        if rival is not None:
            self.problems[name] = f"answers the same as {rival} beside it, so it may be another's"
            return
        try:
            self.taken[place] = self._read(file)
        except UnreadableSubmission as problem:
            self.problems[name] = str(problem)
            return
        self.left -= len(self.taken[place])
        yield place[:-1], self.taken[place]

    def _read(self, path: Path) -> bytes:
        """Return the bytes of a file. Raises UnreadableSubmission."""
        if len(self.taken) >= MAX_FILES:
            raise UnreadableSubmission(f"is one of more than {MAX_FILES} files; hand in fewer")
        if is_regular_file(path) and path.stat().st_size > self.left:
            raise UnreadableSubmission("is too large, together with the others; hand in less")
        return read_carefully(path, self.left)


def _find_rival(file: Path, entries: Set[str]) -> str | None:
    """Return the name of a file beside this one that defines one of the same `entries`, if any."""
    defined = _list_defined(file) & entries if entries else None
    if not defined:
        return None
    others = (each for each in sorted(file.parent.iterdir()) if each != file)
    answers = (each for each in others if each.suffix.lower() in KIND_BY_SUFFIX)
    near = itertools.islice(answers, MAX_RIVALS)
    return next((each.name for each in near if _list_defined(each) & defined), None)


@functools.lru_cache(maxsize=4 * MAX_RIVALS)
def _list_defined(file: Path) -> frozenset[str]:
    """Return the names of the classes and functions in a file, found in its bytes."""
    try:
        data = read_carefully(file, MAX_RIVAL_SIZE)
    except UnreadableSubmission:
        return frozenset()
    return frozenset(name.decode() for name in _DEFINED.findall(data))


def _iter_imports(data: bytes) -> Iterator[tuple[int, Place]]:
    """Yield for each import the number of its leading dots, and the names after them."""
    for match in _IMPORTS.finditer(data):
        dots, module, names, modules = match.groups()
        if modules is not None:
            yield from ((0, names) for part in modules.split(b",") if (names := _split(part)))
            continue
        path = _split(module)
        yield from [(len(dots), path)] * bool(path)
        for word in _WORD.findall(names):  # each may be a module
            yield len(dots), (*path, word.decode())


def _split(dotted: bytes) -> Place:
    """Return the names before `as` in `a.b.c as d`; an empty tuple if they are invalid."""
    names = dotted.strip().partition(b" ")[0].decode().split(".")
    return tuple(names) if len(names) <= MAX_DEPTH and all(map(is_module_name, names)) else ()
