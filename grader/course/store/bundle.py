"""A submission and the files beside it that it imports, as one content of a store.

A verdict depends on all of these files, so they are stored and recognised together. A file that
imports no others is stored unchanged. The kind of a bundle ends in a plus sign, so that no
submitted file can be taken for a bundle.
"""

import json
from dataclasses import dataclass

from headcheck.grader.course.store.records import FileContent, hash_content
from headcheck.grader.reading.submission import NO_SIBLINGS, Sibling, Siblings

MARK = "+"
"""the ending of a bundle's kind"""


@dataclass(frozen=True, slots=True)
class Unpacked:
    """The files that a content holds."""

    data: bytes
    kind: str
    siblings: Siblings = NO_SIBLINGS


def pack(data: bytes, kind: str, siblings: Siblings) -> FileContent:
    """Return the content of a submission: its bytes, or a bundle if anything came with it."""
    if not siblings.files and not siblings.problems:
        return hash_content(data, kind)
    header = {
        "main": siblings.main,
        "size": len(data),
        "files": [(file.path, len(file.data)) for file in siblings.files],
        "problems": siblings.problems,
    }
    parts = [json.dumps(header).encode(), b"\n", data, *(file.data for file in siblings.files)]
    return hash_content(b"".join(parts), kind + MARK)


def unpack(content: bytes, kind: str) -> Unpacked:
    """Return what was packed."""
    if not kind.endswith(MARK):
        return Unpacked(content, kind)
    text, _, body = content.partition(b"\n")
    if not text:  # a content that is missing is read as an empty file
        return Unpacked(b"", kind.removesuffix(MARK))
    header = json.loads(text)
    data, at = body[: header["size"]], header["size"]
    files = []
    for path, size in header["files"]:
        files.append(Sibling(tuple(path), body[at : at + size]))
        at += size
    problems = tuple((name, why) for name, why in header["problems"])
    siblings = Siblings(tuple(header["main"]), tuple(files), problems, searched=True)
    return Unpacked(data, kind.removesuffix(MARK), siblings)
