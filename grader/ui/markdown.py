"""Markdown for people: laid out in a terminal, and unchanged anywhere else."""

import os
from typing import ClassVar

import click
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.syntax import Syntax
from rich.text import Text
from rich.theme import Theme

from headcheck.grader.report.render.sanitise import sanitise

MAX_WIDTH = 100
"""the largest width of text in a terminal, even if the terminal is wider"""
CODE_INDENT = 4
MAX_LENGTH = 1_000_000
"""the largest number of characters that are printed"""
THEME = Theme({"markdown.h1": "bold", "markdown.code": "cyan"})
"""readable on dark and on light backgrounds"""


class _LeftHeading(Heading):
    """A heading at the left edge; the title is underlined, so that it shows without styles."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.tag != "h1":
            yield ""
        yield self.text
        if self.tag == "h1":
            yield Text("═" * min(self.text.cell_len, options.max_width), "bold")


class _IndentedCode(CodeBlock):
    """Code in the terminal's own colours, distinguished from text by its indent."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        yield Syntax(
            code, self.lexer_name, theme="ansi_dark", word_wrap=True, padding=(0, 0, 0, CODE_INDENT)
        )


class _TerminalMarkdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _LeftHeading,
        "fence": _IndentedCode,
        "code_block": _IndentedCode,
    }


def print_markdown(text: str) -> None:
    """Print Markdown to standard output: laid out if that is a terminal, otherwise unchanged.

    With NO_COLOR the layout has no escape sequences.
    """
    text = sanitise(text, MAX_LENGTH)
    console = Console(theme=THEME, color_system=None if os.environ.get("NO_COLOR") else "auto")
    if not console.is_terminal:
        click.echo(text, nl=False)
        return
    width = min(console.width, MAX_WIDTH)
    console.print(_TerminalMarkdown(text), width=width)
