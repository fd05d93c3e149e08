"""Trusted code by its name: `package.module:Name` or `path/to/file.py:Name`."""

import difflib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType


class DefinitionNotFound(Exception):
    """There is no such thing; the message, one line, says what to do."""


def locate(name: str) -> tuple[ModuleType, object]:
    """The module and what it calls by that name. Runs the module; raises NotFound."""
    where, _, wanted = name.rpartition(":")
    if not where or not wanted:
        raise DefinitionNotFound(
            f"`{name}` names no definition; write package.module:Name or file.py:Name"
        )
    module = _import_file(Path(where)) if where.endswith(".py") else _import_module(where)
    if not hasattr(module, wanted):
        raise DefinitionNotFound(f"{where} defines no `{wanted}`{suggest(wanted, vars(module))}")
    return module, getattr(module, wanted)


def suggest(name: str, known: Iterable[str]) -> str:
    """'; did you mean `x`?', or nothing where nothing is like it."""
    near = difflib.get_close_matches(name, known, 1)
    return f"; did you mean `{near[0]}`?" if near else ""


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # The missing module is the one asked for, or a package that it is in.
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            text = (
                f"there is no module `{error.name}`: install it, set PYTHONPATH, or name its file"
            )
            raise DefinitionNotFound(text) from error
        raise _make_import_error(name, error) from error
    except (Exception, SystemExit) as error:
        raise _make_import_error(name, error) from error


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise DefinitionNotFound(f"there is no file {path}")
    # Under a name that no import can have meant.
    name = f"headcheck {path.resolve()}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise DefinitionNotFound(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.append(str(path.resolve().parent))  # for the modules beside it
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
