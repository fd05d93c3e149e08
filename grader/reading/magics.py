"""Neutralise the notebook syntax that is not Python: magics, shell commands and prompts."""

import ast

from IPython.core.inputtransformer2 import (
    TransformerManager,
    classic_prompt,
    ipython_prompt,
    leading_indent,
)

_BODY_IS_PYTHON = frozenset({"capture", "headcheck", "prun", "time", "timeit"})


# `no-untyped-call` is silenced where IPython's untyped methods are called.
class _Neutraliser(TransformerManager):
    """IPython's own transformer of `%magic`, `!command` and `help?`, but with harmless output."""

    def do_one_token_transform(self, lines: list[str]) -> tuple[bool, list[str]]:
        changed, after = super().do_one_token_transform(lines)  # type: ignore[no-untyped-call]
        if not changed:
            return False, after
        pairs = enumerate(zip(lines, after, strict=False))
        at = next((i for i, (old, new) in pairs if old != new), len(after) - 1)
        # IPython joins a command continued over several lines: put blank lines in their place.
        missing = ["\n"] * (len(lines) - len(after))
        return True, [*after[:at], _neutralise_line(after[at]), *missing, *after[at + 1 :]]


def neutralise_magics(text: str) -> str:
    """Return a cell's text without its magics; every other line keeps its line number.

    IPython's tokenizer may raise any exception on text that is hardly Python.
    """
    lines = [f"{line}\n" for line in text.split("\n")]
    blank = next((i for i, line in enumerate(lines) if line.strip()), len(lines))
    head, body = ["\n"] * blank, lines[blank:]
    for transform in (leading_indent, classic_prompt, ipython_prompt):
        body = transform(body)  # type: ignore[no-untyped-call]
    while body and body[0].startswith("%%"):
        if not _BODY_IS_PYTHON.intersection(body[0][2:].split()[:1]):
            return ""
        stop = next((i for i, line in enumerate(body[1:], 1) if line.strip()), len(body))
        head, body = [*head, *["\n"] * stop], body[stop:]
    manager = _Neutraliser()  # type: ignore[no-untyped-call]
    lines = [*head, *manager.do_token_transforms(body)]  # type: ignore[no-untyped-call]
    return "".join(lines).removesuffix("\n")


def _neutralise_line(line: str) -> str:
    """Replace the `get_ipython().…` that IPython put into a line.

    A call used as a value becomes None, and a call that is a statement becomes `pass`. Of `%time`,
    the statement that it times remains.
    """
    before, is_command, call = line.partition("get_ipython().")
    if not is_command:
        return line
    timed = _extract_timed_statement("get_ipython()." + call)
    if timed:
        return f"{before}{timed}\n"
    return f"{before}None\n" if before.strip() else f"{before}pass\n"


def _extract_timed_statement(call: str) -> str:
    match ast.parse(call.strip(), mode="eval").body:
        case ast.Call(args=[ast.Constant(value="time"), ast.Constant(value=str(statement))]):
            return "" if statement.lstrip().startswith("-") else statement.strip()
    return ""
