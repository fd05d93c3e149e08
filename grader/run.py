"""One run of a command: from paths to a report, and from a report to text and files."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path

import click
from rich.console import Console

from headcheck.exercises import Exercise
from headcheck.grader import UserError, files, terminal
from headcheck.grader.files import WriteError
from headcheck.grader.grading import devices, infer, worker_pool
from headcheck.grader.grading.precompile import precompile_plans
from headcheck.grader.grading.search_limit import SearchLimit
from headcheck.grader.grading.settings import Settings
from headcheck.grader.grading.worker_pool import GradedSubmission, Sandbox, Supply
from headcheck.grader.grading.worker_pool import create_sandbox as create_sandbox  # for commands
from headcheck.grader.reading import submission
from headcheck.grader.reading.notebook_lines import find_file_line
from headcheck.grader.reading.submission import SubmissionNotFound, UnreadableSubmission
from headcheck.grader.report.course_file import NO_COURSE_FILE, CourseFile
from headcheck.grader.report.feedback import Feedback, redact_report
from headcheck.grader.report.records import (
    ErrorRecord,
    Report,
    SubmissionRecord,
    build_report,
    to_json,
)
from headcheck.grader.report.records import compute_exit_code as compute_exit_code
from headcheck.grader.report.render import text
from headcheck.grader.report.render.heading import Occasion
from headcheck.grader.report.render.sanitise import escape_json, sanitise_line
from headcheck.grader.report.render.view import format_status
from headcheck.grader.sandbox.grader_side.launch import Zygote
from headcheck.grader.sandbox.isolation import IsolationLevel
from headcheck.grader.sandbox.limits import Limits
from headcheck.grader.sandbox.operations import DROP
from headcheck.grader.seed import Seed
from headcheck.grader.watch import read_stamp, wait_for_saves
from headcheck.properties.terms.depth import Depth

MORE = "--verbose"
"""the option that shows the collapsed parts of a report"""


class DeviceUnavailable(UserError):
    """The device does not exist on this machine; the message says why."""


def make_settings(
    exercise: Exercise | None = None,
    course: CourseFile = NO_COURSE_FILE,
    *,
    rounding: float | None = None,
    device: str = "cpu",
    seed: Seed | None = None,
    limits: Mapping[str, float] | None = None,
    by_hand: bool = False,
    jobs: int | None = None,
    search: SearchLimit | None = None,
    bindings: Sequence[str] = (),
    all_examples: bool = False,
    thorough: bool = False,
) -> Settings:
    """Return the settings of a run; the given limits override the limits of an exercise.

    `rounding` and `thorough` override what the course file says of them. Raises BadBinding,
    DeviceUnavailable.
    """
    if not devices.is_known(device):
        raise DeviceUnavailable(f"{device}: not a device; there are {devices.DEVICE_NAMES}")
    why_not = devices.explain_unavailable(device)
    if why_not is not None:
        raise DeviceUnavailable(f"{device}: {why_not}")
    roles = None
    if bindings:
        from headcheck.grader.grading.stated_roles import parse_roles

        roles = parse_roles(bindings)
    return Settings(
        exercise=exercise,
        limit_overrides=limits or {},
        points=course.points,
        rounding=rounding or course.rounding,
        slip=course.slip,
        seed=seed or Seed(),
        device=device,
        by_hand=by_hand,
        jobs=jobs,
        search=search,
        roles=roles,
        depth=Depth.THOROUGH if thorough else course.depth or Depth.USUAL,
        thorough=course.thorough,
        all_examples=all_examples,
    )


def find_exercise(exercise: str | None) -> Exercise | None:
    """Return the exercise with this slug or in this folder. Raises TargetNotFound, BadContract."""
    return None if exercise is None else infer.find_exercise(exercise)


def grade_paths(
    paths: Sequence[str],
    settings: Settings,
    *,
    trusted: bool = False,
    ahead: Zygote | None = None,
    shared: bool = False,
) -> Report:
    """Grade all submissions that the paths stand for, and return a report on them.

    `shared` says that the files may belong to a class of students rather than to one person. A path
    that does not exist is reported, and the others are graded. Raises SubmissionNotFound if no path
    leads to a submission, and SandboxError if submissions are neither trusted nor confined.
    """
    missing: list[tuple[str, str]] = []
    found = list(dict.fromkeys(submission.find_submissions(paths, missing, shared=shared)))
    records = [_record_missing(path, problem) for path, problem in missing]
    sandbox = create_sandbox(trusted=trusted, device=settings.device, ahead=ahead)
    with precompile_plans(found, settings), sandbox as server:
        for _, graded in grade_with_progress(server, found, settings):
            records.extend(graded)
    return build_report(records, server.isolation_level, settings.seed)


def grade_with_progress(
    server: Sandbox, found: Supply, settings: Settings
) -> Iterator[GradedSubmission]:
    """Yield every file with its records, and show on standard error how many there are.

    On a terminal the progress is a bar. Where files are graded one by one in this process, a second
    bar shows the progress of a search. Elsewhere, as in a log of CI, one line is printed for each
    file if there are several.
    """
    if Console(stderr=True).is_terminal:
        from headcheck.grader import progress  # it takes a while, and few commands need it

        with progress.show_bars(len(found)) as bars:
            for file, records in worker_pool.grade_all(server, found, settings, bars.show):
                yield file, records
                bars.advance(file)
        return
    graded = worker_pool.grade_all(server, found, settings)
    for number, (file, records) in enumerate(graded, start=1):
        yield file, records
        if len(found) > 1:  # only now, when whoever got the records has saved them
            verdicts = ", ".join(dict.fromkeys(format_status(each.status) for each in records))
            text = f"{number}/{len(found)} {file.display_path}: {verdicts}"
            click.echo(sanitise_line(text), err=True)


def watch_file(
    path: str,
    settings: Settings,
    form: str,
    telling: Feedback | None,
    *,
    trusted: bool = False,
    verbose: bool = False,
    ahead: Zygote | None = None,
) -> int:
    """Check a file now and whenever it is saved, until Ctrl-C or a closed output.

    Return the exit code of the last check. The fork server keeps running between checks. Raises
    SubmissionNotFound, SandboxError, and KeyboardInterrupt if nothing was checked.
    """
    if Path(path).is_dir():
        raise SubmissionNotFound(f"{path}: headcheck cannot watch a folder; name one file")
    [file] = submission.find_submissions([path])
    code = None
    try:
        with create_sandbox(trusted=trusted, device=settings.device, ahead=ahead) as server:
            for _ in wait_for_saves(file.path):
                graded = grade_with_progress(server, [file], settings)
                records = [record for _, listed in graded for record in listed]
                if read_stamp(file.path) is None:
                    continue  # it was removed meanwhile, and will be back
                report = redact_report(
                    build_report(records, server.isolation_level, settings.seed), telling
                )
                _show_next(report, form, first=code is None, verbose=verbose)
                code = compute_exit_code(report)
                if terminal.is_reader_gone():
                    break
                click.echo("watching: save it to check it again, Ctrl-C ends", err=True)
    except KeyboardInterrupt:
        if code is None:
            raise
    assert code is not None, "a watch ends after a check, or by an interrupt"
    return code


def _show_next(report: Report, form: str, *, first: bool, verbose: bool) -> None:
    """Show a report in place of the last one on a terminal, and below it elsewhere."""
    console = Console()
    if console.is_terminal:
        console.clear()
    elif not first and form != "json":
        click.echo()
    show_report(report, form, verbose=verbose)


def _record_missing(path: str, problem: str) -> SubmissionRecord:
    return SubmissionRecord(
        file=path,
        student=Path(path).stem,
        exercise=None,
        name=None,
        score=0.0,
        max_score=0.0,
        status="not_tried",
        seconds=0.0,
        error=ErrorRecord("not_found", problem),
    )


def render_report(report: Report, form: str, *, verbose: bool = False) -> str:
    """Return the report as text, JSON, one HTML page or commands of a GitHub workflow.

    Only text is collapsed, unless `verbose` is set; a log has room for everything.
    """
    match form:
        case "json":
            return escape_json(to_json(report))
        case "html":
            from headcheck.grader.report.render import html  # templates take a while to import

            return html.render_all(report, Occasion(day=date.today()))
        case "github":
            from headcheck.grader.report.render import github

            return github.render(report, _find_file_line)
        case _:
            return text.render(report, "" if verbose else MORE)


def _find_file_line(record: SubmissionRecord, cell: int, line: int) -> int | None:
    """Return the line of a notebook's file that holds a line of a cell, if the file exists."""
    limit = Limits().source
    try:
        [file] = submission.find_submissions([record.file])
        return find_file_line(submission.read_submission(file, limit), cell, line)
    except (SubmissionNotFound, UnreadableSubmission, ValueError):
        return None


def show_report(report: Report, form: str, *, verbose: bool = False) -> None:
    """Write the report to standard output, in colour if that is a terminal."""
    console = Console()
    if form == "text" and console.is_terminal:
        text.print_lines(console, text.iter_lines(report, "" if verbose else MORE))
    else:
        # A terminal may not know every character; a file of JSON or HTML is always UTF-8.
        encoding = sys.stdout.encoding if form in ("text", "github") else "utf-8"
        shown = render_report(report, form, verbose=verbose)
        click.echo(shown.encode(encoding, "replace"), nl=False)


def show_grades(report: Report) -> None:
    """Write the table of grades to standard output, in colour if that is a terminal."""
    console = Console()
    if console.is_terminal:
        text.print_lines(console, text.iter_grades(report))
    else:
        shown = text.join_lines(text.iter_grades(report))
        click.echo(shown.encode(sys.stdout.encoding, "replace"), nl=False)


def write_report(report: Report, out: Path, day: date | None = None) -> Path:
    """Write report.json, index.html and a page for every submission; return the index's path.

    The pages show `day`, by default today. Raises WriteError.
    """
    from headcheck.grader.report.render import html  # templates take a while to import

    occasion = Occasion(day=day or date.today())
    out.mkdir(parents=True, exist_ok=True)
    files.write(out / "report.json", escape_json(to_json(report)).encode())
    for name, page in html.render_pages(report, occasion=occasion).items():
        files.write(out / name, page.encode())
    index = out / "index.html"
    files.write(index, html.render_index(report, occasion).encode())
    return index


def save_report(report: Report, out: Path) -> str:
    """Write a report into a folder; return the problem if that fails."""
    try:
        write_report(report, out)
    except WriteError as problem:
        return str(problem)
    return ""


def examine_machine() -> tuple[str, bool]:
    """Start a sandbox; return how it confines submissions here, and whether that suffices.

    The text also names a build of torch that this machine has no card for.
    """
    with create_sandbox(trusted=True) as sandbox:
        child = sandbox.start_child(Limits())
        child.request(DROP.name, {"handles": []})
        child.close()
    level, unused = sandbox.isolation_level, devices.describe_unused_build()
    return describe_isolation(level) + (f"\n{unused}" if unused else ""), level.is_confining


def describe_isolation(level: IsolationLevel) -> str:
    """Describe an isolation level: what it guarantees, what is missing, and how to get it."""
    layers = ", ".join(level.layers) or "nothing"
    lines = [f"isolation level {level.name}: {layers}", "", "A submission"]
    lines += [f"  - {each}" for each in level.guarantees] or ["  - is not confined in any way"]
    if not level.is_confining:
        lines += ["", "This is not enough for code of strangers: only --trusted runs it here."]
    if level.missing:
        lines += ["", "Missing"]
        for each in level.missing:
            lines += [f"  - {each.layer}: {each.why}", f"    {each.how}"]
    return "\n".join(lines) + "\n"
