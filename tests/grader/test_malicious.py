"""Submissions whose names and messages are attacks are shown, harmlessly, in every format."""

import csv
import io
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader import run
from headcheck.grader.course import dashboard
from headcheck.grader.course.export import Gradebook, export
from headcheck.grader.course.export.gradebook import FORMULA_PREFIXES
from headcheck.grader.course.results import ExerciseResult
from headcheck.grader.grading.grade import grade_file_or_raise
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.submission import find_submissions
from headcheck.grader.report.records import SubmissionRecord, build_report, from_json
from headcheck.grader.report.render import html
from headcheck.grader.report.render.sanitise import UNSAFE
from headcheck.grader.sandbox.grader_side.servers import ServerHandle

ATTACKS: Mapping[str, str] = {
    "plain": "plain",
    "script": "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "closes": "</pre></code></style></title></textarea>--></svg>]]>",
    "terminal": "\x1b]8;;http://evil\x07\x1b[2J\x9b1m\x1b[32m75 / 75  passed",
    "reading_order": "\u202egnp.exe\u2066\u2069\u200f",
    "lines": "\nada.py  linear_layer (linear)  75 / 75  passed\n",
    "commands": "\n::error file=x.py::forged\n  ::stop-commands::x\n##[error]forged ##[add-mask]a",
    "percent": "%0A::error::forged%0D%25",
    "markdown": "`x` ![x](http://evil) [y](javascript:alert(1)) |a|b|\n# heading\n```",
    "formula": "=HYPERLINK(\"http://evil\")\n+1+cmd|' /C calc'!A0",
    "template": "{{ 7 * 7 }}{% raw %}${7*7}",
    "surrogate": "\udcff\x00\x7f",
    "megabyte": "<&::\n" * 200_000,
}
SAYS = """
ATTACK = {attack!a}
NAME = ATTACK[:200].replace("\\0", "").encode("utf-8", "replace").decode()
Named = type(NAME, (Exception,), {{}})

def linear(x, weight, bias):
    print(ATTACK.encode("utf-8", "replace").decode())
    raise Named(ATTACK)
"""
OUTLINE = re.compile(r"<style>.*?</style>|<script>.*?</script>", re.DOTALL)


def name_of(attack: str) -> str:
    """As much of it as a file may be called."""
    plain = attack.replace("/", "⁄").replace("\0", "")
    return plain.encode("utf-8", "surrogateescape")[:80].decode("utf-8", "surrogateescape")


@pytest.fixture(scope="module")
def judged(
    tmp_path_factory: pytest.TempPathFactory, server: ServerHandle
) -> Mapping[str, SubmissionRecord]:
    """The records of submissions that are called, raise and print each of the attacks."""
    folder = tmp_path_factory.mktemp("malicious")
    settings = Settings(exercise=BY_SLUG["linear_layer"])
    found = {}
    for name, attack in ATTACKS.items():
        path = folder / f"{name_of(attack)}.py"
        path.write_text(SAYS.format(attack=attack), encoding="utf-8")
        found[name] = grade_file_or_raise(server, find_submissions([str(path)])[0], settings)[0]
    return found


def standing(record: SubmissionRecord, attack: str) -> ExerciseResult:
    told = attack.encode("utf-8", "backslashreplace").decode()
    return ExerciseResult(
        told, told, told, told, record.exercise or "", 0.0, 75.0, 0.0, record.status, 1, False,
        None, record,
    )  # fmt: skip


def book(records: Mapping[str, SubmissionRecord], name: str) -> Gradebook:
    return Gradebook(ATTACKS[name][:100], (standing(records[name], ATTACKS[name][:2000]),))


@pytest.fixture(scope="module", params=ATTACKS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def written(judged: Mapping[str, SubmissionRecord], name: str) -> list[tuple[str, str]]:
    """Everything that is written about a submission for people or for their tools, by its form."""
    return list(write(judged, name))


def write(records: Mapping[str, SubmissionRecord], name: str) -> Iterator[tuple[str, str]]:
    report = build_report([records[name]])
    for form in ("text", "json", "html", "github"):
        yield form, run.render_report(report, form)
    yield "index", html.render_index(report)
    for form in ("gradescope", "prairielearn", "github", "junit", "moodle-gradebook", "csv"):
        for content in export(book(records, name), form).files.values():
            yield f"export {form}", content.decode()
    yield "dashboard", dashboard.render(book(records, name), "0.1.0")


def test_the_attack_is_in_the_record(judged: Mapping[str, SubmissionRecord], name: str) -> None:
    record = judged[name]
    assert record.status == "crashed"
    shown = next(claim for claim in record.properties if claim.status == "crashed")
    assert "(line " in shown.message or name == "megabyte"
    assert len(shown.message) < 5000


def test_nothing_controls_a_terminal_or_a_log(written: list[tuple[str, str]]) -> None:
    for form, text in written:
        body = text.replace("\r\n", "\n") if form.startswith("export") else text
        assert UNSAFE.search(body) is None, form
        for line in body.split("\n"):
            commanded = line.lstrip().startswith("::") or "##[" in line
            ours = form in ("github", "export github") and re.match(
                r"::(error|notice) [^:]*::", line
            )
            assert not commanded or ours, f"{form}: {line[:200]}"
        text.encode()


def test_nothing_is_long(written: list[tuple[str, str]]) -> None:
    for form, text in written:
        assert len(text.encode()) < 300_000, form


class Tags(HTMLParser):
    """The tags of a page with the names of their attributes; not those of single lines."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, ...]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if (tag, attrs) != ("span", [("dir", "auto")]) and tag != "wbr":
            self.found.append((tag, *(name for name, _ in attrs)))


def pages(records: Mapping[str, SubmissionRecord], name: str) -> Sequence[str]:
    report = build_report([records[name]])
    gradebook = book(records, name)
    standings = dashboard.render(gradebook, "0.1.0", ("001.html",))
    return [
        html.render_all(report),
        html.render_page(records[name], report),
        html.render_index(report),
        standings,
    ]


def test_nothing_becomes_markup(judged: Mapping[str, SubmissionRecord], name: str) -> None:
    for got, plain in zip(pages(judged, name), pages(judged, "plain"), strict=True):
        assert Tags(got).found == Tags(plain).found
        assert "alert(1)</script>" not in OUTLINE.sub("", got)


def test_json_is_read_back_as_it_was(judged: Mapping[str, SubmissionRecord], name: str) -> None:
    report = build_report([judged[name]])
    assert from_json(run.render_report(report, "json")) == report


def test_other_readers_read_what_they_are_given(written: list[tuple[str, str]]) -> None:
    for form, text in written:
        if form in ("export gradescope", "export prairielearn"):
            json.loads(text)
        elif form == "export junit":
            ET.fromstring(text)
        elif form in ("export csv", "export moodle-gradebook"):
            rows = list(csv.reader(io.StringIO(text, newline="")))
            assert len(rows) == 2 and len(rows[0]) == len(rows[1])
            assert not [cell for row in rows for cell in row if cell.startswith(FORMULA_PREFIXES)]


def test_only_our_own_lines_begin_at_the_edge(
    judged: Mapping[str, SubmissionRecord], name: str
) -> None:
    shown = run.render_report(build_report([judged[name]]), "text")
    assert len([line for line in shown.split("\n") if line and line[0] != " "]) == 1


def test_the_names_of_files_stay_where_they_belong(
    judged: Mapping[str, SubmissionRecord], tmp_path: Path
) -> None:
    report = build_report(list(judged.values()))
    run.write_report(report, tmp_path / "out")
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert len(names) == len(judged) + 2
    assert all(re.fullmatch(r"[a-z0-9.-]+", name) for name in names)
