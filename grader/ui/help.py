"""The commands of `headcheck`: where they are, grouped by reader, with an example for each."""

import importlib
from collections import UserDict
from collections.abc import Iterator, Mapping

import click

GROUPS: Mapping[str, tuple[str, ...]] = {
    "For students": ("start", "check", "show", "hint", "list"),
    "For instructors": (
        *("grade", "author", "regrade", "runs", "export", "dashboard", "override", "mark"),
        *("comment", "replay", "gradescope"),
    ),
    "For libraries and CI": ("verify", "replay-case"),
    "For sceptics": ("audit", "bank", "doctor"),
}
EXAMPLES: Mapping[str, str] = {
    "start": "headcheck start causal_attention",
    "check": "headcheck check causal_attention.ipynb --watch",
    "show": "headcheck show causal_attention",
    "hint": "headcheck hint causal_attention 2",
    "list": "headcheck list",
    "grade": "headcheck grade submissions --exercise causal_attention --out report",
    "author": "headcheck author solution.py --out my_exercise",
    "regrade": "headcheck regrade week-1 --store course.db --diff",
    "runs": "headcheck runs --store course.db",
    "export": "headcheck export week-1 --store course.db --format canvas",
    "dashboard": "headcheck dashboard week-1 --store course.db --out dashboard.html",
    "override": "headcheck override week-1/ada 95 --store course.db",
    "mark": "headcheck mark week-1/ada style 3 --store course.db --comment 'Clear names.'",
    "comment": "headcheck comment week-1/ada 'Well done!' --store course.db",
    "replay": "headcheck replay week-1 --student ada --store course.db",
    "gradescope": "headcheck gradescope causal_attention autograder.zip",
    "verify": "headcheck verify attention.py:Attention --contract attention.contract.toml",
    "replay-case": "headcheck replay-case 'tokens=2 seed=3' attn.py:Attention --property is_causal",
    "audit": "headcheck audit scaled_dot_product",
    "bank": "headcheck bank show causal_attention",
    "doctor": "headcheck doctor",
}
MODULES: Mapping[str, str] = {
    **dict.fromkeys(("list", "show", "hint", "start"), "exercise_commands"),
    **dict.fromkeys(("runs", "override", "comment", "replay", "export"), "course_commands"),
    **dict.fromkeys(("verify", "replay-case"), "library_commands"),
    "author": "author_command",
    "bank": "bank_commands",
    "dashboard": "dashboard_command",
    "mark": "mark_command",
    "regrade": "regrade_command",
}
"""the files in `grader/ui` that hold the commands, except for those in `cli`"""
COMPLETION = 'For completion in bash: eval "$(_HEADCHECK_COMPLETE=bash_source headcheck)"'


class LimitParameter(click.Option):
    """An option that limits a submission's resources."""


class SectionedCommand(click.Command):
    """A command whose help lists the limits on submissions in a separate section."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, then those that limit a submission."""
        rows = [(each, each.get_help_record(ctx)) for each in self.get_params(ctx)]
        limits = [row for each, row in rows if row and isinstance(each, LimitParameter)]
        others = [row for each, row in rows if row and not isinstance(each, LimitParameter)]
        for title, listed in (("Options", others), ("Limits of a submission", limits)):
            if listed:
                with formatter.section(title):
                    formatter.write_dl(listed)


class CommandTable(UserDict[str, click.Command]):
    """The commands by name; the module of one is imported when the command is asked for."""

    def __missing__(self, name: str) -> click.Command:
        module = importlib.import_module(f"headcheck.grader.ui.{MODULES[name]}")
        made = (each for each in vars(module).values() if isinstance(each, click.Command))
        self[name] = next(command for command in made if command.name == name)
        return self[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        """Add a command, and to its help the example of its use."""
        command.epilog = f"\b\nExample:\n  {EXAMPLES[name]}"
        super().__setitem__(name, command)

    def __contains__(self, name: object) -> bool:
        return name in EXAMPLES

    def __iter__(self) -> Iterator[str]:
        return iter(EXAMPLES)


class HelpGroup(click.Group):
    """A group of commands whose help groups them by reader."""

    command_class = SectionedCommand

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands of each reader, with the first sentence of each."""
        for reader, names in GROUPS.items():
            with formatter.section(reader):
                formatter.write_dl([(name, self._summarise(ctx, name)) for name in names])

    def _summarise(self, ctx: click.Context, name: str) -> str:
        command = self.get_command(ctx, name)
        return "" if command is None else command.get_short_help_str(limit=1000)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write where to read further."""
        formatter.write_paragraph()
        formatter.write_text("headcheck COMMAND --help shows the options and an example.")
        formatter.write_text(COMPLETION)
