"""`%%headcheck [SLUG]`: run a cell as always, then check what it defined."""

import ast
from typing import Any

from IPython.core.getipython import get_ipython
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from exercises import Exercise
from grader.grading import infer
from grader.grading.infer import DefinitionSignature, TargetNotFound
from grader.ui.jupyter.asked import CannotCheck, can_answer, describe_definition
from grader.ui.jupyter.checking import check, check_in_namespace
from grader.ui.jupyter.live import find_source_text


def load(shell: InteractiveShell) -> None:
    """Make the magic known, and `check` where nothing is called that."""
    shell.register_magic_function(headcheck, "cell")  # type: ignore[arg-type]  # a descriptor
    shell.user_ns.setdefault("check", check)


def headcheck(line: str, cell: str) -> None:
    """Run this cell, then check what it defines, for the exercise SLUG or for the one it answers.

    Raises CannotCheck where the cell raised, or defined nothing that can be checked.
    """
    shell = get_ipython()
    assert shell is not None  # nothing else calls magics
    words = line.split()
    if len(words) > 1:
        raise CannotCheck(f"%%headcheck takes one exercise, not {len(words)}: {line.strip()}"[:200])
    exercise = _find_exercise(words[0]) if words else None
    if not shell.run_cell(cell, store_history=False).success:
        raise CannotCheck("the cell ended with an error, so nothing was checked")
    for name, slug in _select_targets(
        shell.user_ns, _find_names(shell.transform_cell(cell)), exercise
    ):
        display(check_in_namespace(shell.user_ns[name], slug, shell.user_ns))


def _find_exercise(slug: str) -> Exercise:
    try:
        return infer.find_exercise(slug)
    except TargetNotFound as problem:
        raise CannotCheck(str(problem)) from None


def _find_names(source: str) -> list[str]:
    """The names that a cell defines or assigns, at its top level."""
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
) -> list[tuple[str, str | None]]:
    """What of a cell is checked, and as what. Raises CannotCheck where there is nothing."""
    there = {name: namespace[name] for name in names if callable(namespace.get(name))}
    found = [_describe(name, definition) for name, definition in there.items()]
    fitting = [defined for defined in found if exercise and can_answer(defined, exercise)]
    if exercise is not None and len(fitting) == 1:  # whatever it is called
        return [(fitting[0].name, exercise.slug)]
    try:
        targets = infer.choose_targets(found, exercise, None)
    except TargetNotFound as problem:
        if exercise is None:
            raise CannotCheck(_explain_no_target(found)) from None
        raise CannotCheck(f"this cell: {problem}") from None
    return [(target.name, target.exercise.slug) for target in targets]


def _describe(name: str, definition: object) -> DefinitionSignature:
    return describe_definition(name, definition, find_source_text(definition))


def _explain_no_target(found: list[DefinitionSignature]) -> str:
    if not found:
        return "this cell defines no class and no function, so nothing was checked"
    names = ", ".join(f"`{defined.name}`" for defined in found[:8])
    return (
        f"this cell defines {names}, and no exercise asks for that: say which one is meant, "
        "as in %%headcheck multi_head_attention; `headcheck list` names all"
    )
