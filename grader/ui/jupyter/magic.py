"""`%%headcheck [SLUG|FOLDER]`: run a cell, then check its definitions."""

import ast
from pathlib import Path
from typing import Any

from IPython.core.getipython import get_ipython
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from exercises import Exercise
from exercises.exercise import BadContract
from grader.grading import infer
from grader.grading.infer import DefinitionSignature, TargetNotFound
from grader.ui.jupyter.checking import check, check_in_namespace
from grader.ui.jupyter.live import find_source_text
from grader.ui.jupyter.target import CannotCheck, can_answer, describe_definition


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
    words, asked = line.split(), line.strip()
    if len(words) > 1 and not Path(asked).is_dir():  # a folder may have spaces in its path
        raise CannotCheck(f"%%headcheck takes one exercise, not {len(words)}: {asked}"[:200])
    exercise = _find_exercise(asked) if words else None
    if not shell.run_cell(cell, store_history=False).success:
        raise CannotCheck("the cell ended with an error, so nothing was checked")
    names = _find_names(shell.transform_cell(cell))
    for name, answered in _select_targets(shell.user_ns, names, exercise):
        display(check_in_namespace(shell.user_ns[name], answered, shell.user_ns))


def _find_exercise(name: str) -> Exercise:
    try:
        return infer.find_exercise(name)
    except (TargetNotFound, BadContract) as error:
        raise CannotCheck(str(error)) from None


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


def _select_targets(
    namespace: dict[str, Any], names: list[str], exercise: Exercise | None
) -> list[tuple[str, Exercise]]:
    """Return the names to check with their exercises. Raises CannotCheck if there are none."""
    callables = {name: namespace[name] for name in names if callable(namespace.get(name))}
    found = [describe_definition(k, v, find_source_text(v)) for k, v in callables.items()]
    fitting = [defined for defined in found if exercise and can_answer(defined, exercise)]
    if exercise is not None and len(fitting) == 1:  # under any name
        return [(fitting[0].name, exercise)]
    try:
        targets = infer.choose_targets(found, exercise, None)
    except TargetNotFound as error:
        text = _explain_no_target(found) if exercise is None else f"this cell: {error}"
        raise CannotCheck(text) from None
    return [(target.name, target.exercise) for target in targets]


def _explain_no_target(found: list[DefinitionSignature]) -> str:
    if not found:
        return "this cell defines no class and no function, so nothing was checked"
    names = ", ".join(f"`{defined.name}`" for defined in found[:8])
    return (
        f"this cell defines {names}, and no exercise asks for that: say which one is meant, "
        "as in %%headcheck multi_head_attention; `headcheck list` names all"
    )
