"""Help lists every command once, for its reader, and with an example that can be given."""

import shlex
from collections import Counter

import click
import pytest
from click.testing import CliRunner

from headcheck.grader.ui.cli import cli
from headcheck.grader.ui.help import EXAMPLES, GROUPS


def test_each_command_is_listed_once_with_a_whole_sentence() -> None:
    listed = Counter(name for names in GROUPS.values() for name in names)
    assert listed == Counter(list(cli.commands))
    text = CliRunner().invoke(cli, ["--help"]).output
    assert all(f"{reader}:\n" in text for reader in GROUPS)
    assert "..." not in text.replace("[ARGS]...", "")
    assert all(command.get_short_help_str(1000).endswith(".") for command in cli.commands.values())


@pytest.mark.parametrize("name", sorted(cli.commands))
def test_help_of_a_command_ends_with_an_example(name: str) -> None:
    text = CliRunner().invoke(cli, [name, "--help"]).output
    assert text.endswith(f"Example:\n    {EXAMPLES[name]}\n")


@pytest.mark.parametrize("name", sorted(set(cli.commands) - {"bank"}))
def test_the_example_of_a_command_is_understood(name: str) -> None:
    program, given, *arguments = shlex.split(EXAMPLES[name])
    assert (program, given) == ("headcheck", name)
    with click.Context(cli) as context:
        cli.commands[name].make_context(name, arguments, parent=context)


def test_limits_stand_in_a_section_of_their_own() -> None:
    text = CliRunner().invoke(cli, ["check", "--help"]).output
    options, limits = text.split("Limits of a submission:\n")
    assert "--watch" in options and "--seconds" not in options
    assert "--seconds" in limits and "--memory" in limits and "--trusted" not in limits
    assert "Limits" not in CliRunner().invoke(cli, ["show", "--help"]).output
