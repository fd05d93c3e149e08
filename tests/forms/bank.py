"""Attention classes by somebody who had not seen the code, each with a label.

The classes are data: they lie in `classes`, and `labels.toml` says what each is.
"""

import functools
import tomllib
from dataclasses import dataclass
from pathlib import Path

from headcheck.grader.grading.definitions import parse_outline
from headcheck.grader.sandbox.grader_side.subject import ChannelSubject, InProcessChannel
from headcheck.grader.sandbox.worker.runtime import WorkerRuntime
from headcheck.properties.signatures.signature import Signature
from tests.grader.sandbox.runtimes import send_load, send_read

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

    @property
    def source(self) -> str:
        return self.path.read_text(encoding="utf-8")


def list_forms(label: str) -> list[Form]:
    """All classes with this label."""
    return [form for form in _iter_forms() if form.label == label]


@functools.cache
def _iter_forms() -> tuple[Form, ...]:
    labels = tomllib.loads((FOLDER / "labels.toml").read_text(encoding="utf-8"))
    return tuple(Form(**entry) for entry in labels["form"])


def open_class(source: str, name: str) -> tuple[ChannelSubject, Signature]:
    """A class of a source, loaded in this process as a submission is, and what it takes."""
    host = WorkerRuntime()
    read = send_read(host, source.encode(), "py")
    assert send_load(host, name).op == "ok"
    defined = parse_outline(read.meta["value"])
    signature = next(d.signature for d in defined if d.name == name)
    assert signature is not None, f"`{name}` has no forward"
    return ChannelSubject(InProcessChannel(host)), signature
