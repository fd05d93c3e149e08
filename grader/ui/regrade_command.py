"""The command `headcheck regrade`: the present points of a stored run, and who gains or loses."""

import sys
from dataclasses import replace
from pathlib import Path

import click

from headcheck.grader.ui.course_options import (
    load_roster,
    make_policy,
    open_store,
    roster_option,
    store_option,
    tell_kept_shares,
    tell_policy,
)
from headcheck.grader.ui.options import (
    SEED_RANGE,
    load_course_file,
    make_course_option,
    round_option,
    trusted_option,
)


@click.command()
@click.argument("run")
@store_option(required=True)
@click.option("--diff", is_flag=True, help="Show only whose points would change.")
@make_course_option("as the run was graded")
@roster_option
@round_option
@click.option("--seed", type=SEED_RANGE, help="Another seed of the cases.")
@trusted_option
def regrade(
    run: str,
    location: str,
    diff: bool,
    course_file: Path | None,
    roster: Path | None,
    rounding: float | None,
    seed: int | None,
    trusted: bool,
) -> None:
    """Grade a run again with this version; answers that nothing changed for keep their verdict.

    Where only points, their rounding, rubrics, deadlines or groups are new, nothing is. Shows who
    gains or loses. With --diff nothing else happens: no grade changes. What people decided by
    `headcheck override` and `headcheck mark` stays in any case. Exit code: 0 nothing differs, 1
    something.
    """
    with open_store(location) as store:
        from headcheck.grader.course import regrading
        from headcheck.grader.course.results import format_changes
        from headcheck.grader.seed import make_seed

        settings = store.load_newest_run(run).manifest.settings
        rules = policy = None
        students = load_roster(roster)
        if course_file is not None:
            rules = load_course_file(course_file, settings.exercise)
            policy = make_policy(rules, run, students)
            settings = replace(
                settings, points=rules.points, rounding=rules.rounding, slip=rules.slip
            )
            if rules.depth is not None:
                settings = replace(settings, depth=rules.depth, thorough=rules.thorough)
        if rounding is not None:
            settings = replace(settings, rounding=rounding)
        if seed is not None:
            settings = replace(settings, seed=make_seed(seed))
        feedback = rules.feedback if rules else None
        again = regrading.regrade(
            store, run, settings, trusted=trusted, feedback=feedback, policy=policy
        )
        if not diff:
            regrading.adopt(store, run, again)
        changes, maxima = again.score_changes, again.changed_maxima
        text = format_changes(changes, again.count, would=diff, maxima=maxima)
        click.echo(text, nl=False)
        tell_kept_shares(again.after)
        if policy is not None:
            tell_policy(policy, again.stored, again.after, students)
    sys.exit(1 if again.score_changes else 0)
