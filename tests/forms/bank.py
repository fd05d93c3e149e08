"""Attention classes by somebody who had not seen the code, each with a label.

The classes are data: they lie in `classes`, and `labels.toml` says what each is.
"""

import functools
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType

from grader.grading.infer import parse_outline
from grader.reading.cells import read_source
from grader.reading.outline import list_definitions
from properties.binding.signature import Signature

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Form:
    """One class: where it is, what it is called, and whether it is right."""

    file: str
    cls: str
    label: str
    what: str
    fault: str = ""

    @property
    def number(self) -> str:
        return self.file[:3]

    @property
    def path(self) -> Path:
        return FOLDER / "classes" / self.file

    def read_signature(self) -> Signature:
        """What it takes, as its source tells."""
        return get_signature(self.path.read_text(encoding="utf-8"), self.cls)

    def load(self) -> ModuleType:
        """The module of the class, loaded in this process."""
        return load_source(self.path.read_text(encoding="utf-8"))


def list_forms(label: str) -> list[Form]:
    """All classes with this label."""
    return [form for form in _iter_forms() if form.label == label]


@functools.cache
def _iter_forms() -> tuple[Form, ...]:
    labels = tomllib.loads((FOLDER / "labels.toml").read_text(encoding="utf-8"))
    return tuple(Form(**entry) for entry in labels["form"])


def get_signature(source: str, name: str) -> Signature:
    """What a class of this source takes."""
    return next(s for s in _iter_signatures(source) if s.name == name)


def _iter_signatures(source: str) -> Iterator[Signature]:
    read = read_source(source.encode(), "py")
    outline = {"definitions": [asdict(d) for d in list_definitions(read)]}
    yield from (d.signature for d in parse_outline(outline) if d.signature is not None)


def load_source(source: str) -> ModuleType:
    """A module of its own, under a name that its classes can be found by."""
    module = ModuleType("submission")
    sys.modules["submission"] = module
    exec(compile(source, "submission.py", "exec"), vars(module))
    return module
