"""Which test files a change needs: `pytest --changed` collects these, and no others.

A test file is chosen if it lies in the folder of tests for the room that changed, or if it imports
a module that changed, or one of the same package that builds on it. What is further away is tested
by what lies between. Rooms without such a folder, such as the families of properties, are tested by
the files of `tests/properties` and the banks. A change that cannot be traced to modules, such as
one of `pyproject.toml`, chooses all.
"""

import ast
import functools
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

import grimp

from tests.git_changes import ROOT, list_changed_files

PACKAGE = "headcheck"
ROOMS = ("reference", "properties", "exercises", "grader")
BANKS = ("tests/exercises", "tests/golden", "tests/kinds")
"""the folders of tests that go through the answers of exercises"""
ELSEWHERE = ("docs", "site", "examples", ".github")
"""what only the environment `docs` reads"""
HUB = "tests/commands.py"
"""runs the whole command: what imports it uses no module in particular"""


@functools.cache
def load_graph() -> grimp.ImportGraph:
    """Who imports whom in the product."""
    return grimp.build_graph(PACKAGE, cache_dir=None)


def list_dependents(module: str) -> set[str]:
    """A module, and those of its package that import it, directly or not."""
    package = module.rpartition(".")[0] + "."
    found, left = set[str](), [module]
    while left:
        if (current := left.pop()) not in found:
            found.add(current)
            importers = load_graph().find_modules_that_directly_import(current)
            left += [each for each in importers if each.startswith(package)]
    return found


# ------------------------------------------------------------------------------------------ tests


@functools.cache
def list_test_files() -> tuple[str, ...]:
    """All test files, as paths from the root."""
    found = (ROOT / "tests").rglob("test_*.py")
    return tuple(sorted(path.relative_to(ROOT).as_posix() for path in found))


@functools.cache
def list_used(path: str) -> frozenset[str]:
    """The names that a test file imports, itself or through helpers among the tests."""
    found, left, seen = set[str](), [path], {HUB}
    while left:
        if (current := left.pop()) in seen:
            continue
        seen.add(current)
        for name in _list_imports((ROOT / current).read_text("utf-8")):
            found.add(name)
            helper = name.replace(".", "/") + ".py"
            if name.startswith("tests.") and (ROOT / helper).is_file():
                left.append(helper)
    return frozenset(found)


def _list_imports(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


# ----------------------------------------------------------------------------------------- choice


def choose_tests(changed: Iterable[str]) -> frozenset[str]:
    """Return the test files that changed files need; all are paths from the root."""
    return frozenset[str]().union(*map(_choose_for, changed))


@functools.cache
def choose_for_change() -> frozenset[str]:
    """Return the test files that the change at hand needs."""
    return choose_tests(list_changed_files())


def _choose_for(path: str) -> frozenset[str]:
    room, *inside = PurePosixPath(path).parts
    match room:
        case "tests":
            return _choose_for_test(path)
        case "benchmarks":
            return _select_in("tests/benchmarks")
        case "exercises" if len(inside) > 1:
            return frozenset[str]().union(*map(_select_in, BANKS))
        case _ if room in ELSEWHERE or (path.endswith(".md") and not inside):
            return frozenset()
        case _ if room in ROOMS and (len(inside) > 1 or room in ("reference", "exercises")):
            return _choose_for_product(path)
        case _:
            return frozenset(list_test_files())


def _select_in(folder: str) -> frozenset[str]:
    return frozenset(each for each in list_test_files() if each.startswith(f"{folder}/"))


def _select_beside(folder: str) -> frozenset[str]:
    """Return the test files in a folder, without those in its folders."""
    return frozenset(each for each in list_test_files() if each.rpartition("/")[0] == folder)


def _choose_for_test(path: str) -> frozenset[str]:
    """Return a test itself, the users of a helper, or all of a folder whose data changed."""
    if path in list_test_files():
        return frozenset({path})
    name = path.removesuffix(".py").replace("/", ".")
    users = frozenset(each for each in list_test_files() if name in list_used(each))
    folder = "/".join(path.split("/")[:3][:-1])
    return users or _select_in(folder)


def _choose_for_product(path: str) -> frozenset[str]:
    """Return what tests the room of a file, and whatever uses the file or builds on it."""
    needed = frozenset[str]().union(*map(list_dependents, _list_modules(path)))
    users = frozenset(each for each in list_test_files() if needed & list_used(each))
    room, *inside = PurePosixPath(path).parts
    own = _select_in(f"tests/{room}/{inside[0]}" if len(inside) > 1 else f"tests/{room}")
    return users | (own or _select_beside(f"tests/{room}") | _select_in(BANKS[0]))


def _list_modules(path: str) -> list[str]:
    """The module that a file is or, for data, the modules beside it or above."""
    modules = load_graph().modules
    name = ".".join((PACKAGE, *PurePosixPath(path).with_suffix("").parts))
    name = name.removesuffix(".__init__")
    if path.endswith(".py"):
        return [name] if name in modules else []
    while name not in modules:
        name = name.rpartition(".")[0]
    return [each for each in modules if each == name or each.startswith(f"{name}.")]
