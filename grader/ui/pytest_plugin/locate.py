"""Locate trusted code by its name: `package.module:Name` or `path/to/file.py:Name`."""

import difflib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType


class DefinitionNotFound(Exception):
    """The named definition does not exist; the one-line message says what to do."""


def locate(name: str) -> tuple[ModuleType, object]:
    """Import the module and return it with the definition. Raises DefinitionNotFound."""
    where, _, attribute = name.rpartition(":")
    if not where or not attribute:
        raise DefinitionNotFound(
            f"`{name}` names no definition; write package.module:Name or file.py:Name"
        )
    module = _import_file(Path(where)) if where.endswith(".py") else _import_module(where)
    if not hasattr(module, attribute):
        hint = suggest(attribute, vars(module))
        raise DefinitionNotFound(f"{where} defines no `{attribute}`{hint}")
    return module, getattr(module, attribute)


def suggest(name: str, known: Iterable[str]) -> str:
    """Return '; did you mean `x`?', or an empty text if no name is close."""
    near = difflib.get_close_matches(name, known, 1)
    return f"; did you mean `{near[0]}`?" if near else ""


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # The missing module is the named one, or a package that contains it.
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            advice = "install it, set PYTHONPATH, or name its file"
            raise DefinitionNotFound(f"there is no module `{error.name}`: {advice}") from error
        raise _make_import_error(name, error) from error
    except (Exception, SystemExit) as error:
        raise _make_import_error(name, error) from error


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise DefinitionNotFound(f"there is no file {path}")
    # A name that no import statement can contain.
    name = f"headcheck {path.resolve()}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise DefinitionNotFound(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.append(str(path.resolve().parent))  # for modules next to it
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise _make_import_error(str(path), error) from error
    return module


def _make_import_error(name: str, error: BaseException) -> DefinitionNotFound:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(str(error).split())
    at = f"{Path(frame.filename).name}, line {frame.lineno}"
    return DefinitionNotFound(f"{name} cannot be imported: {type(error).__name__}: {text} ({at})")
