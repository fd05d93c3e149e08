"""A class of which everybody did something else, graded as a course is, and its pages."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path

from headcheck.exercises import BY_SLUG, starter
from headcheck.grader import run
from headcheck.grader.course import dashboard
from headcheck.grader.course.export import Gradebook
from headcheck.grader.course.results import ExerciseResult
from headcheck.grader.report.collation import collate
from headcheck.grader.report.records import Report, SubmissionRecord

DAY = date(2026, 11, 26)
EXERCISE = BY_SLUG["causal_attention"]
SCALE = (" / keys.shape[-1] ** 0.5", "")
MASK = ("attn_scores = attn_scores.masked_fill(", "attn_scores.masked_fill(")
RETURN = ("return attn_weights @ values", "attn_weights @ values")
SCORES = "queries @ keys.transpose(1, 2) / keys.shape[-1] ** 0.5"
LONG = (
    SCORES,
    "torch.einsum('bqd,bkd->bqk', nn.functional.linear(x, self.W_query.weight, self.W_query.bias), "
    "nn.functional.linear(x, self.W_key.weight, self.W_key.bias)) "
    "/ self.W_key.weight.shape[1] ** 0.5",
)
LOOP = ("tokens = x.shape[1]", "tokens = x.shape[1]\n        while tokens:\n            pass")
EDITS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "Ada Lovelace": (),
    "Ángel Núñez": (LONG,),
    "Bob Čech": (("super().__init__()", "super().__init__("),),
    "Chloë Ünal": (SCALE, MASK),
    "Émile Zola": (SCALE,),
    "Jürgen Groß": (LOOP,),
    "Łukasz Nowak": ((".transpose(1, 2)", ""),),
    "Nora Brown": (RETURN,),
    "Øystein Sørensen": ((".transpose(1, 2)", ""), SCALE),
    "Özgür Aslan": (("diagonal=1", "diagonal=0"),),
    "Šárka Dvořák": (MASK,),
    "Yuki Tanaka": (("dim=-1", "dim=-2"),),
}
"""students, and what they changed in the solution"""
UNTOUCHED = "Zoë Ångström"


def write_class(folder: Path) -> None:
    """Write the files of a class, a folder for each student."""
    solution = (EXERCISE.folder / "solution.py").read_text(encoding="utf-8")
    for student, edits in EDITS.items():
        text = solution
        for old, new in edits:
            assert old in text, old
            text = text.replace(old, new)
        _write(folder / student, text)
    _write(folder / UNTOUCHED, starter.render_module(EXERCISE))


def _write(folder: Path, text: str) -> None:
    folder.mkdir(parents=True)
    (folder / "attention.py").write_text(text, encoding="utf-8")


def grade_class(folder: Path) -> Report:
    """Grade what is in the folder; an endless loop may take a second."""
    settings = run.make_settings(EXERCISE, limits={"call_s": 1.0})
    report = run.grade_paths([str(folder)], settings, trusted=True)
    short = (
        replace(each, file=str(Path(each.file).relative_to(folder))) for each in report.submissions
    )
    return replace(report, submissions=tuple(short))


def make_gradebook(report: Report) -> Gradebook:
    """Return the results of a run on the same files."""
    results = map(_make_result, range(1, 99), report.submissions)
    return Gradebook("week 3", tuple(sorted(results, key=lambda each: collate(each.name))))


def _make_result(number: int, record: SubmissionRecord) -> ExerciseResult:
    return ExerciseResult(
        student=f"{100 + number}",
        name=Path(record.file).parent.name,
        email="",
        handle="",
        exercise=EXERCISE.slug,
        score=record.score,
        max_score=record.max_score or 125.0,
        judged=record.score,
        status=record.status,
        attempt=1,
        late=number == 4,
        submitted=None,
        record=record,
    )


def write_pages(report: Report, folder: Path) -> Path:
    """Write the report and, in a folder `dashboard`, the page on the run; return the index."""
    book = make_gradebook(report)
    pages = dashboard.render_pages(book, "0.1.0", DAY)
    pages["index.html"] = dashboard.render(book, "0.1.0", tuple(pages), day=DAY)
    (folder / "dashboard").mkdir(parents=True)
    for name, text in pages.items():
        (folder / "dashboard" / name).write_text(text, encoding="utf-8")
    return run.write_report(report, folder, DAY)
