"""`%%headcheck [SLUG|FOLDER] [--bind heads=n_head]`: run a cell, then check its definitions."""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from IPython.core.getipython import get_ipython
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from headcheck.exercises import Exercise
from headcheck.grader.grading import infer
from headcheck.grader.grading.definitions import DefinitionSignature
from headcheck.grader.ui.jupyter.checking import CheckResult, Request, check, judge, make_request
from headcheck.grader.ui.jupyter.live import find_source_text
from headcheck.grader.ui.jupyter.target import (
    CannotCheck,
    can_answer,
    describe_definition,
    explain_unknown,
)


def load(shell: InteractiveShell) -> None:
    """Register the magic, and define `check` unless the name is taken."""
    shell.register_magic_function(headcheck, "cell")  # type: ignore[arg-type]  # a descriptor
    shell.user_ns.setdefault("check", check)


def headcheck(line: str, cell: str) -> None:
    """Run this cell, then check its definitions against the exercise named or the one inferred.

    Raises CannotCheck if the cell raised, or defined nothing that can be checked.
    """
    shell = get_ipython()
    assert shell is not None  # nothing else calls magics
    asked = _read_line(line)
    if not shell.run_cell(cell, store_history=False).success:
        raise CannotCheck("the cell ended with an error, so nothing was checked")
    found = _describe_all(_find_names(shell.transform_cell(cell)), shell.user_ns)
    unknown = []
    chosen = _select(found, asked.settings.exercise)
    for defined in chosen:
        text = find_source_text(shell.user_ns[defined.name])
        record = judge(defined, shell.user_ns, text, asked)
        problem = explain_unknown(defined, record)
        if problem is None:
            display(CheckResult(record))
        else:
            unknown.append(problem)
    if len(unknown) == len(chosen):
        raise CannotCheck(unknown[-1])  # the last one usually is the whole of the others


def _read_line(line: str) -> Request:
    """Return the request in the first line of a cell. Raises CannotCheck."""
    named, *bound = (part.strip() for part in line.split("--bind"))
    if " " in named and not Path(named).is_dir():  # a folder may have spaces in its path
        words = named.split()
        raise CannotCheck(f"%%headcheck takes one exercise, not {len(words)}: {named}"[:200])
    return make_request(named or None, bind=" ".join(bound))


def _find_names(source: str) -> list[str]:
    """Return the names that a cell defines or assigns at its top level."""
    names: list[str] = []
    for node in ast.parse(source).body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                names.append(name)
            case ast.Assign(targets=targets):
                names += [target.id for target in targets if isinstance(target, ast.Name)]
    return list(dict.fromkeys(names))


def _describe_all(names: Sequence[str], namespace: Mapping[str, Any]) -> list[DefinitionSignature]:
    """Describe those objects with these names that can be called."""
    found = []
    for name in names:
        value = namespace.get(name)
        if callable(value):
            described = describe_definition(name, value, find_source_text(value))
            own = getattr(value, "__name__", name)
            alias_of = own if own != name and own in names else None
            found.append(replace(described, alias_of=alias_of))
    return found


def _select(
    found: Sequence[DefinitionSignature], exercise: Exercise | None
) -> Sequence[DefinitionSignature]:
    """Return the definitions to check. Raises CannotCheck if there is nothing."""
    fitting = [defined for defined in found if exercise and can_answer(defined, exercise)]
    if len(fitting) == 1:  # under any name
        return fitting
    inferred = infer.infer_all(found, exercise, None)
    if exercise is not None and inferred.problem is not None:
        raise CannotCheck(f"this cell: {inferred.problem.message}")
    chosen = {t.name for t in inferred.targets} | {c.name for c in inferred.candidates}
    chosen = chosen or {function.name for function in inferred.functions}
    if not chosen:
        raise CannotCheck(_explain_no_target(found))
    return [defined for defined in found if defined.name in chosen]


def _explain_no_target(found: Sequence[DefinitionSignature]) -> str:
    if not found:
        return "this cell defines no class and no function, so nothing was checked"
    names = ", ".join(f"`{defined.name}`" for defined in found[:8])
    return (
        f"this cell defines {names}, and no exercise asks for that: say which one is meant, "
        "as in %%headcheck multi_head_attention; `headcheck list` names all"
    )
