"""One run of a command: from paths to a report, and from a report to text and files."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from grader import files, inference, points, render, submission, terminal
from grader.feedback import Feedback, told
from grader.files import NotWritten
from grader.judging.compiling import compiling
from grader.judging.grading import Settings
from grader.machine import devices, workers
from grader.machine.workers import Elsewhere, Graded, Place, sandbox
from grader.notebook import line_in_file
from grader.render.harmless import plain_json
from grader.report import (
    ErrorRecord,
    Report,
    SubmissionRecord,
    exit_code,
    report_of,
    to_json,
)
from grader.sandbox.jail.rung import Rung
from grader.sandbox.launch import Zygote
from grader.sandbox.limits import Limits
from grader.seed import Seed
from grader.submission import NotFound, Submission, Unopened
from grader.watch import saved, stamp

__all__ = [
    "examined",
    "exit_code",
    "grade",
    "hinted",
    "judged",
    "put",
    "rendered",
    "sandbox",
    "settings",
    "show",
    "shown",
    "watched",
    "write",
]


class NoDevice(Exception):
    """A device that is not there; the message says why."""


def settings(
    exercise: str | None,
    points_file: Path | None,
    *,
    device: str = "cpu",
    seed: Seed | None = None,
    limits: Mapping[str, float] | None = None,
    by_hand: bool = False,
    jobs: int | None = None,
) -> Settings:
    """The settings of a run; limits that are named go before those of an exercise.

    Raises NoTarget, BadPoints, NoDevice.
    """
    if not devices.known(device):
        raise NoDevice(f"{device}: no device; there are {devices.NAMES}")
    why_not = devices.unavailable(device)
    if why_not is not None:
        raise NoDevice(f"{device}: {why_not}")
    return Settings(
        exercise=None if exercise is None else inference.by_slug(exercise),
        insisted=limits or {},
        points=None if points_file is None else points.read(points_file),
        seed=seed or Seed(),
        device=device,
        by_hand=by_hand,
        jobs=jobs,
    )


def grade(
    paths: Sequence[str],
    chosen: Settings,
    *,
    trusted: bool = False,
    ahead: Zygote | None = None,
) -> Report:
    """Grade everything that the paths stand for. Raises NotFound if that is nothing at all.

    Submissions that are not trusted are graded only where they can be confined; SandboxError else.
    A path that leads nowhere beside others that do is reported, and the others are graded.
    """
    found, missing = _found(paths)
    records = [_missing(path, problem) for path, problem in missing]
    place = sandbox(trusted=trusted, device=chosen.device, ahead=ahead)
    with compiling(found, chosen), place as server:
        for _, graded in judged(server, found, chosen):
            records.extend(graded)
    return report_of(records, server.rung, chosen.seed)


def judged(
    place: Place | Elsewhere, found: Sequence[Submission], chosen: Settings
) -> Iterator[Graded]:
    """Every file with its records, in order, as soon as it is judged."""
    with _progress() as progress:
        task = progress.add_task("grading", total=len(found))
        for handed_in, records in workers.judged(place, found, chosen):
            progress.update(task, description=handed_in.shown[-40:], advance=1)
            yield handed_in, records


def watched(
    path: str,
    chosen: Settings,
    form: str,
    telling: Feedback | None,
    *,
    trusted: bool = False,
    ahead: Zygote | None = None,
) -> int:
    """Check a file now and whenever it is saved, until Ctrl-C, or until nobody reads what is shown.

    The exit code is that of the last check.

    The fork server stays between checks. Raises NotFound, SandboxError, and KeyboardInterrupt
    where nothing was checked.
    """
    if Path(path).is_dir():
        raise NotFound(f"{path}: a folder cannot be watched; name one file")
    [handed_in] = submission.find([path])
    code = None
    try:
        with sandbox(trusted=trusted, device=chosen.device, ahead=ahead) as server:
            for _ in saved(handed_in.path):
                records = [r for _, found in judged(server, [handed_in], chosen) for r in found]
                if stamp(handed_in.path) is None:
                    continue  # it was taken away in the middle, and will be back
                report = told(report_of(records, server.rung, chosen.seed), telling)
                _show_next(report, form, first=code is None)
                code = exit_code(report)
                if terminal.unread():
                    break
                click.echo("watching: save it to check it again, Ctrl-C ends", err=True)
    except KeyboardInterrupt:
        if code is None:
            raise
    assert code is not None, "a watch ends after a check, or by an interrupt"
    return code


def _show_next(report: Report, form: str, *, first: bool) -> None:
    """Show a report instead of the last one on a terminal, and below it elsewhere."""
    console = Console()
    if console.is_terminal:
        console.clear()
    elif not first and form != "json":
        click.echo()
    show(report, form)


def _found(paths: Sequence[str]) -> tuple[list[Submission], list[tuple[str, NotFound]]]:
    found: list[Submission] = []
    missing: list[tuple[str, NotFound]] = []
    for path in paths:
        try:
            found.extend(submission.find([path]))
        except NotFound as problem:
            missing.append((path, problem))
    if not found:
        raise missing[0][1]
    return list(dict.fromkeys(found)), missing


def _missing(path: str, problem: NotFound) -> SubmissionRecord:
    return SubmissionRecord(
        file=path,
        student=Path(path).stem,
        exercise=None,
        name=None,
        score=0.0,
        max_score=0.0,
        status="not_tried",
        seconds=0.0,
        error=ErrorRecord("not_found", str(problem)),
    )


class Rate(ProgressColumn):
    """How many are judged in a second."""

    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:.1f}/s")


def _progress() -> Progress:
    """A bar on standard error, for people only."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        Rate(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def rendered(report: Report, form: str) -> str:
    """The report as text, JSON, one HTML page or commands of a GitHub workflow."""
    match form:
        case "json":
            return plain_json(to_json(report))
        case "html":
            return render.html.whole(report)
        case "github":
            return render.github.render(report, _line_in_file)
        case _:
            return render.text.render(report)


def _line_in_file(record: SubmissionRecord, cell: int, line: int) -> int | None:
    """The line of a notebook's file that holds a line of a cell, if the file is still there."""
    limit = Limits().source
    try:
        [handed_in] = submission.find([record.file])
        return line_in_file(submission.read(handed_in, limit), cell, line)
    except (NotFound, Unopened, ValueError):
        return None


def show(report: Report, form: str) -> None:
    """Write the report to standard output, in colour if that is a terminal."""
    console = Console()
    if form == "text" and console.is_terminal:
        render.text.print_to(console, report)
    else:
        # A terminal may not know every character; a file of JSON or HTML is always UTF-8.
        encoding = sys.stdout.encoding if form in ("text", "github") else "utf-8"
        click.echo(rendered(report, form).encode(encoding, "replace"), nl=False)


def write(report: Report, out: Path) -> Path:
    """Write report.json, index.html and a page for every submission; where the index is.

    Raises NotWritten.
    """
    out.mkdir(parents=True, exist_ok=True)
    files.write(out / "report.json", plain_json(to_json(report)).encode())
    for i, record in enumerate(report.submissions):
        page = out / render.html.page_name(record, i)
        files.write(page, render.html.page(record, report).encode())
    index = out / "index.html"
    files.write(index, render.html.index(report).encode())
    return index


def put(report: Report, out: Path) -> str:
    """Write a report into a folder, and say where it is; why not, if that does not work."""
    try:
        index = write(report, out)
    except NotWritten as problem:
        return str(problem)
    click.echo(f"report: {index}", err=True)
    return ""


def examined() -> tuple[str, bool]:
    """What this machine offers to confine submissions, and whether it suffices; tried out."""
    with sandbox(trusted=True) as place:
        child = place.child(Limits())
        child.request("drop", {"handles": []})
        child.close()
        return described(place.rung), place.rung.confines


def described(rung: Rung) -> str:
    """A rung for people: what holds, what is missing, and how to get it."""
    layers = ", ".join(rung.layers) or "nothing"
    lines = [f"rung {rung.name}: {layers}", "", "A submission"]
    lines += [f"  - {each}" for each in rung.holds] or ["  - is not confined in any way"]
    if not rung.confines:
        lines += ["", "This is not enough for code of strangers: only --trusted runs it here."]
    if rung.missing:
        lines += ["", "Missing"]
        for each in rung.missing:
            lines += [f"  - {each.layer}: {each.why}", f"    {each.how}"]
    return "\n".join(lines) + "\n"


def hinted(slug: str, number: int) -> str:
    """One of an exercise's hints, counted from 1, and how to get the next. Raises NoTarget."""
    hints = inference.by_slug(slug).hints
    if not 1 <= number <= len(hints):
        raise inference.NoTarget(f"{slug} has {len(hints)} hints, counted from 1; no hint {number}")
    last = number == len(hints)
    more = "This was the last." if last else f"The next: headcheck hint {slug} {number + 1}"
    return f"Hint {number} of {len(hints)}\n\n{hints[number - 1]}\n\n{more}\n"


def shown(slug: str) -> str:
    """What an exercise asks, and what its groups of claims are worth. Raises NoTarget."""
    exercise = inference.by_slug(slug)
    groups: dict[str, list[str]] = {}
    for wanted in exercise.properties:
        groups.setdefault(wanted.group.value, []).append(wanted.claim)
    lines = [exercise.statement.rstrip(), "", "## What is checked", ""]
    for group in dict.fromkeys(p.group for p in exercise.properties):
        lines.append(f"{group.value}: {exercise.worth(group):g} points")
        lines += [f"  - {claim}" for claim in groups[group.value]]
    lines += ["", f"Stuck? There are {len(exercise.hints)} hints: headcheck hint {slug}"]
    return "\n".join(lines) + "\n"
