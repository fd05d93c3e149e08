"""What every exercise's folder holds, and that statement, contract and solution agree."""

import ast
import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headcheck.exercises import ALL, BY_SLUG, Exercise
from headcheck.exercises.answers import list_answers, load_bank
from headcheck.exercises.exercise import DEFAULT_POINTS
from headcheck.exercises.starter import BEGIN, END
from headcheck.properties.contracts.contract import Entry
from headcheck.properties.property import PropertyGroup
from tests.submissions import execute

SLUGS = sorted(BY_SLUG)
FOLDER = Path(inspect.getfile(Exercise)).resolve().parent

FEWEST_RIGHT = 10
FEWEST_WRONG, CLAIMS_PER_WRONG = 8, 4
MORE_WRONG = {
    "causal_attention": 40,
    "causal_self_attention": 40,
    "masked_multi_head": 40,
    "multi_head_attention": 60,
}
"""exercises that stand for the others, where most kinds of mistakes are tried"""
"""the more is claimed of an answer, the more can be wrong with it"""


def solved(exercise: Exercise) -> Callable[..., Any]:
    """What the solution defines under the name that is asked for."""
    found: Callable[..., Any] = execute(exercise.solution)[exercise.contract.name]
    return found


def wanted_names(exercise: Exercise) -> set[str]:
    """What the signature in the statement must name; what a builder's module takes is given."""
    contract = exercise.contract
    call = () if contract.entry is Entry.BUILDER else contract.call
    return {contract.name, *call, *(argument.name for argument in contract.arguments)}


def defined(tree: ast.Module) -> set[str]:
    """The names that a module binds at its top level."""
    names: set[str] = set()
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Assign(targets=targets):
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def test_every_folder_is_listed_and_named_like_its_exercise() -> None:
    folders = [path.parent.name for path in FOLDER.glob("*/solution.py")]
    assert sorted(exercise.slug for exercise in ALL) == sorted(folders)
    assert all(exercise.folder == FOLDER / exercise.slug for exercise in ALL)
    assert list(BY_SLUG.values()) == list(ALL)


# -------------------------------------------------------------------------- statements


def test_what_an_exercise_builds_on_comes_before_it() -> None:
    order = [each.slug for each in ALL]
    for number, each in enumerate(ALL):
        assert set(each.builds_on) <= set(order[:number])
    first = {each.slug for each in ALL if not each.builds_on}
    assert first == {"linear_layer", "simplified_attention"}


@pytest.mark.parametrize("slug", SLUGS)
def test_the_statement_has_a_title_and_draws_the_shapes(slug: str) -> None:
    lines = BY_SLUG[slug].statement.splitlines()
    assert lines[0].startswith("# ")
    assert [line for line in lines if line.startswith("# ") and line != lines[0]] == []
    drawn = BY_SLUG[slug].statement.split("```\n")[1:]
    assert any("(" in block and ", " in block for block in drawn)
    assert "## Hints" not in lines, "hints stand in hints.md, and are shown when asked for"


@pytest.mark.parametrize("slug", SLUGS)
def test_hints_exist_and_reveal_no_line_of_the_solution(slug: str) -> None:
    exercise = BY_SLUG[slug]
    assert len(exercise.hints) >= 2
    assert all(hint and not hint[0].isdigit() for hint in exercise.hints)
    regions = [part.split(END)[0] for part in exercise.solution.split(BEGIN)[1:]]
    written = {"".join(line.split()) for region in regions for line in region.splitlines()}
    shown = "".join("".join(exercise.hints).split())
    assert not [line for line in written if len(line) > 8 and line in shown]


def test_hints_are_the_items_of_a_numbered_list(tmp_path: Path) -> None:
    text = "1. One\n   goes on.\n2. Two: 3. is no item.\n\n   A paragraph more.\n"
    (tmp_path / "hints.md").write_text(text, encoding="utf-8")
    made = replace(BY_SLUG["linear_layer"], folder=tmp_path)
    assert made.hints == ("One\ngoes on.", "Two: 3. is no item.\n\nA paragraph more.")


@pytest.mark.parametrize("slug", SLUGS)
def test_statement_names_the_target_and_every_argument(slug: str) -> None:
    code = BY_SLUG[slug].statement.split("```python\n")[1].split("```")[0]
    assert wanted_names(BY_SLUG[slug]) <= set(re.findall(r"\w+", code))


@pytest.mark.parametrize("slug", SLUGS)
def test_the_statement_shows_the_defaults(slug: str) -> None:
    for argument in BY_SLUG[slug].contract.arguments:
        if argument.optional:
            assert f"{argument.name}={argument.default}" in BY_SLUG[slug].statement


# -------------------------------------------------------------------------- contracts


@pytest.mark.parametrize("slug", SLUGS)
def test_the_solution_has_the_signature_of_the_contract(slug: str) -> None:
    contract = BY_SLUG[slug].contract
    found = inspect.signature(solved(BY_SLUG[slug])).parameters
    if contract.entry in (Entry.CLASS, Entry.BUILDER):
        assert list(found) == [argument.name for argument in contract.arguments]
    else:
        assert list(found) == [*contract.call, *(each.name for each in contract.arguments)]
    for argument in contract.arguments:
        if argument.optional:
            assert found[argument.name].default == argument.default


@pytest.mark.parametrize("slug", [s for s in SLUGS if BY_SLUG[s].contract.entry is Entry.CLASS])
def test_the_solutions_forward_takes_what_the_contract_passes(slug: str) -> None:
    found = inspect.signature(solved(BY_SLUG[slug]).forward)  # type: ignore[attr-defined]  # a class
    contract = BY_SLUG[slug].contract
    cache = contract.call_form.cache
    passed = contract.call if cache is None else (*contract.call, cache.argument)
    assert tuple(found.parameters) == ("self", *passed)


@pytest.mark.parametrize("slug", SLUGS)
def test_every_property_group_is_worth_points(slug: str) -> None:
    exercise = BY_SLUG[slug]
    groups = {claim.group for claim in exercise.properties}
    assert all(exercise.get_points(group) > 0 for group in groups)
    assert set(exercise.points) <= groups, "points for a group of which there is no claim"
    assert set(DEFAULT_POINTS) == set(PropertyGroup)


@pytest.mark.parametrize("slug", SLUGS)
def test_prerequisites_are_properties_and_run_first(
    slug: str,
) -> None:
    claims = BY_SLUG[slug].properties
    assert BY_SLUG[slug].prerequisite in claims
    assert len({claim.name for claim in claims}) == len(claims)
    for number, claim in enumerate(claims):
        assert not set(claim.requires) & set(claims[number:]), claim.name


# -------------------------------------------------------------------------- answers


@pytest.mark.parametrize("kind", ["wrong", "right"])
@pytest.mark.parametrize("slug", SLUGS)
def test_every_answer_defines_the_name_and_has_a_unique_summary(slug: str, kind: str) -> None:
    exercise = BY_SLUG[slug]
    found: dict[str, str] = {}
    for answer in list_answers(exercise, kind):
        tree = ast.parse(answer.source)
        said = ast.get_docstring(tree, clean=False)
        assert said, f"{answer.name} has no docstring"
        assert "\n" not in said, f"the docstring of {answer.name} has more than one line"
        assert said not in found, f"{answer.name} and {found.get(said)} say the same"
        found[said] = answer.name
        assert exercise.contract.name in defined(tree), answer.name
    assert found, f"{slug} has no {kind} answers"


@pytest.mark.parametrize("slug", SLUGS)
def test_no_two_answers_are_the_same_program(slug: str) -> None:
    found: dict[str, str] = {}
    for answer in load_bank(BY_SLUG[slug]):
        tree = ast.parse(answer.source)
        program = ast.dump(ast.Module(tree.body[1:], []))
        assert program not in found, f"{answer.name} and {found.get(program)}"
        found[program] = answer.name


@pytest.mark.parametrize("slug", SLUGS)
def test_answer_bank_has_enough_right_and_wrong_answers(slug: str) -> None:
    by_size = len(BY_SLUG[slug].properties) // CLAIMS_PER_WRONG
    fewest = max(FEWEST_WRONG, by_size, MORE_WRONG.get(slug, 0))
    assert len(list_answers(BY_SLUG[slug], "right")) >= FEWEST_RIGHT
    assert len(list_answers(BY_SLUG[slug], "wrong")) >= fewest
