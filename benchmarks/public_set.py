"""How are public files judged in their folders? `python -m benchmarks.public_set FOLDER`.

`public.toml` lists files of public repositories with attention classes. FOLDER holds the Python
files of repository 001 in the folder 001, and so on; they stay outside this repository. Each file
is graded where it lies, without an exercise. Half of the files are sealed: nobody looks into them,
so that this half can be measured again and again. Of the other half, every file that is not judged
rightly is named. The exit code is 1 if a file is accused.
"""

import argparse
import hashlib
import itertools
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.open_sets import HEAD, RIGHTLY, Judged, LabelledFile, judge, write_row

MANIFEST = Path(__file__).with_name("public.toml")


@dataclass(frozen=True)
class PublicFile:
    """A file of a public repository, as it lies in its folder."""

    file: LabelledFile
    is_sealed: bool
    is_complete: bool
    """whether everything that it imports is installed, or lies beside it"""


def main() -> None:
    """Grade, and print the table and the reasons."""
    parser = argparse.ArgumentParser("python -m benchmarks.public_set")
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    files = read_manifest(parser.parse_args().folder)
    found = [(public, judge(public.file)) for public in files]
    opened = [judged for public, judged in found if not public.is_sealed]
    sealed = [judged for public, judged in found if public.is_sealed]
    complete = [judged for public, judged in found if public.is_complete]
    every = [*opened, *sealed]
    print(HEAD, "|---" * 9 + "|", sep="\n")
    rows = {"open": opened, "sealed": sealed, "nothing absent": complete, "all": every}
    print(*itertools.starmap(write_row, rows.items()), sep="\n")
    print(*tell_open(opened), *tell_sealed(sealed), sep="\n")
    sys.exit(any(judged.outcome == "accused" for judged in every))


def read_manifest(folder: Path, manifest: Path = MANIFEST) -> list[PublicFile]:
    """Return the files of the manifest. Raises ValueError if one is not the file that it lists."""
    files = []
    for number, entry in tomllib.loads(manifest.read_text(encoding="utf-8")).items():
        path = folder / number / entry["path"]
        if hashlib.sha256(path.read_bytes()).hexdigest() != entry["sha256"]:
            raise ValueError(f"{number}: this is another file than the one that was labelled")
        labelled = LabelledFile(path, entry["label"], entry["kind"])
        files.append(PublicFile(labelled, entry["half"] == "sealed", not entry["absent"]))
    return files


def tell_open(judged: Sequence[Judged]) -> list[str]:
    """Name the files that were not judged rightly, and why."""
    return [
        f"{one.outcome}: {one.file.path}: {one.said}"
        for one in judged
        if one.outcome not in RIGHTLY
    ]


def tell_sealed(judged: Sequence[Judged]) -> list[str]:
    """Count the reasons for which sealed files were not judged."""
    reasons = Counter(cut(one.said) for one in judged if one.outcome == "not judged")
    return [f"sealed, not judged: {count} × {reason}" for reason, count in reasons.most_common()]


def cut(said: str) -> str:
    """Return the first words of a reason, without what it quotes, up to what may be a name."""
    first, *rest = re.sub(r"`[^`]*`|'[^']*'|\([^)]*\)", " ", said).split() or ["no reason"]
    return " ".join([first, *itertools.takewhile(str.islower, rest[:5])])


if __name__ == "__main__":
    main()
