"""`headcheck author`: an exercise from the solution of one's own course.

Nothing heavy is imported before the command needs it.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headcheck.grader.ui.options import by_hand_option, limits_options, pop_limits

if TYPE_CHECKING:
    from headcheck.grader.authoring.author import Authored
    from headcheck.grader.authoring.decisions import Question
    from headcheck.grader.authoring.recognising import Recognised
    from headcheck.grader.reading.submission import Submission

DECISIONS = ("causal", "dropout", "uniform")
MOST_LISTED = 12
"""the most changes that are listed by name"""


@click.command()
@click.argument("file", metavar="SOLUTION.py|SOLUTION.ipynb")
@click.option(
    "--class", "name", metavar="NAME", help="The class. By default the one that computes attention."
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="The folder of the exercise, which names it. By default it is named after the class.",
)
@click.option("--causal/--no-causal", default=None, help="Whether answers must hide later tokens.")
@click.option("--dropout/--no-dropout", default=None, help="Whether dropout is checked.")
@click.option(
    "--uniform/--no-uniform",
    default=None,
    help="Whether answers must draw weights from torch.rand.",
)
@click.option("--yes", is_flag=True, help="Ask nothing, and assume what the solution suggests.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    help="How many processes work side by side. By default one per core.",
)
@by_hand_option
@limits_options
def author(
    file: str,
    name: str | None,
    out: Path | None,
    yes: bool,
    jobs: int | None,
    trusted: bool,
    **options: Any,
) -> None:
    """Make an exercise from a solution: contract, statement, hints, starter and known answers.

    headcheck calls the class to find out what it computes. On a terminal it asks about the rest;
    elsewhere, and with --yes, it takes what the solution suggests. The solution is judged first: a
    wrong one is refused, and nothing is written. Changes of it are judged in processes of this
    user, without a sandbox: it is one's own code.

    Exit code: 0 certified, 1 refused or not certified, 2 no exercise could be made.
    """
    said = {each: options.pop(each) for each in DECISIONS}
    given = {each: value for each, value in said.items() if value is not None}
    from headcheck.grader import run
    from headcheck.grader.authoring import author as authoring
    from headcheck.grader.authoring.author import check_folder
    from headcheck.grader.authoring.recognising import WrongSolution
    from headcheck.grader.grading.worker_pool import list_processors
    from headcheck.grader.report.records import build_report

    limits = pop_limits(options)
    settings = run.make_settings(limits=limits, **options)
    submission = _find_file(file, name)
    if out is not None:
        check_folder(out)  # rather than fail after a minute
    asks = not yes and sys.stdin.isatty()

    def ask(recognised: "Recognised", questions: "Sequence[Question]") -> Mapping[str, bool]:
        click.echo(render_recognised(recognised), nl=False)
        return _ask_rest(questions, given) if asks else given

    with run.create_sandbox(trusted=trusted) as server:
        try:
            authored = authoring.author(
                server, submission, settings, ask, out, jobs or len(list_processors())
            )
        except WrongSolution as refused:
            report = build_report([refused.record], server.isolation_level, settings.seed)
            run.show_report(report, "text", verbose=True)
            click.echo("refused: the solution is wrong, as said above; nothing was written")
            sys.exit(1)
    click.echo(render_authored(authored), nl=False)
    sys.exit(0 if authored.is_certified else 1)


def _find_file(file: str, name: str | None) -> "Submission":
    """Return the file of the solution. Raises SubmissionNotFound, and UsageError for folders."""
    from dataclasses import replace

    from headcheck.grader.reading.submission import find_submissions

    if Path(file).is_dir():
        raise click.UsageError(f"{file} is a folder; name the file of the solution")
    (found,) = find_submissions((file,))
    return found if name is None else replace(found, name=name)


def _ask_rest(questions: "Sequence[Question]", given: Mapping[str, bool]) -> Mapping[str, bool]:
    """Ask the questions that no option has answered."""
    asked = {
        each.name: click.confirm(each.text, default=each.suggested)
        for each in questions
        if each.name not in given
    }
    return {**asked, **given}


def render_recognised(recognised: "Recognised") -> str:
    """Return the description of a recognised class, and the assumptions."""
    return "".join(f"{line}\n" for line in recognised.notes)


def render_authored(authored: "Authored") -> str:
    """Return the decisions, the written files, and the certificate."""
    return "".join(f"{line}\n" for line in _iter_lines(authored))


def _iter_lines(authored: "Authored") -> Iterator[str]:
    for line in authored.decided:
        yield f"decided: {line}"
    if authored.waived:
        yield f"not asked, as the solution does not keep it: {', '.join(authored.waived)}"
    folder = authored.folder
    yield f"wrote {folder}: contract.toml, statement.md, hints.md, solution.py, answers"
    yield from _list_problems(authored)
    yield _certify(authored)
    yield f"read statement.md, then: headcheck start {folder}"
    yield f"                         headcheck grade CLASS_FOLDER --exercise {folder}"


def _certify(authored: "Authored") -> str:
    names = {each.mistake for each in authored.caught if each.mistake}
    accused = len(authored.audit.false_alarms)
    word = "certified" if authored.is_certified else "not certified"
    said = f"none of {authored.variants} right variants accused"
    if accused:
        said = f"{accused} of {authored.variants + 1} right answers accused"
    return (
        f"{word}: {len(authored.caught)} wrong answers caught, {len(names)} kinds of mistakes "
        f"named, {said}"
    )


def _list_problems(authored: "Authored") -> Iterator[str]:
    for result in authored.audit.false_alarms:
        yield f"accused: {result.answer.name}: {', '.join(result.broken)}"
    for each in authored.missed[:MOST_LISTED]:
        yield f"not caught: {each.answer.name}"
    if len(authored.missed) > MOST_LISTED:
        more = len(authored.missed) - MOST_LISTED
        yield f"not caught: {more} more; headcheck audit {authored.folder} --mutants lists them"
    if authored.left:
        yield (
            f"not judged, for lack of time: {authored.left} changes; "
            f"headcheck audit {authored.folder} --mutants judges them"
        )
    if authored.equivalent:
        count = len(authored.equivalent)
        yield f"{count} changes compute the same as the solution: they are in equivalents.toml"
