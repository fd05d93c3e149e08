"""Import, from memory, the files that came with a submission.

A finder looks up their names before Python searches the installed packages. It ignores the names of
Python's own modules and of modules that are already loaded, so that no file can replace torch. The
files are modules below the package `submission`, which stands for the outermost folder, so that
their relative imports work. A file is the same module by whatever name it is imported.

The code of a package (`__init__.py`) runs only when a name is requested that no file has, since it
often imports everything, while a submission needs only a part. For the same reason a file goes on
after the import of a module that is absent, without what needs this module.
"""

import ast
import linecache
import sys
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import CodeType, MappingProxyType, ModuleType, TracebackType
from typing import Any, NoReturn

from headcheck.grader.reading.cells import Unreadable, parse, read_source
from headcheck.grader.reading.effects import analyse_effects
from headcheck.grader.sandbox.worker.calling import Refused

TOP = "submission"
"""the module name of a submission, and the package name of its folder"""
PACKAGE_FILE = "__init__"
RESERVED = frozenset({"IPython", "headcheck", "numpy", "torch"}) | sys.stdlib_module_names
"""names that are never looked up among a submission's files"""

Place = tuple[str, ...]
"""the names of the folders that contain a module, below the outermost folder, and its own name"""


class SiblingFinder(MetaPathFinder):
    """Finds the files that came with one submission."""

    def __init__(
        self,
        main: Sequence[str] = (TOP,),
        files: Mapping[Place, bytes] = MappingProxyType({}),
        problems: Mapping[str, str] = MappingProxyType({}),
        *,
        searched: bool = False,
    ) -> None:
        self.main = tuple(main)
        self.problems = problems
        """the reasons why files were not included with the submission, by path"""
        self.searched = searched
        """whether the folder of the submission was searched for what it imports"""
        self.files = {(*path[:-1], path[-1].removesuffix(".py")): path for path in files}
        self.data = {place: files[path] for place, path in self.files.items()}
        self.folders = {place[:n] for place in self.files for n in range(1, len(place))}
        self.modules: dict[Place, ModuleType] = {}
        """the modules that were executed, or are being executed"""
        self.places: dict[str, Place] = {}
        """the place of each module that was found, by its full name"""
        self.absent: dict[str, BaseException] = {}
        """names that files could not bind, because a module is absent, with the errors"""
        self.loaded_before: frozenset[str] = frozenset()
        """the modules that were imported before the submission ran"""

    @property
    def package(self) -> str:
        """The package that contains the submission itself."""
        return ".".join((TOP, *self.main[:-1]))

    def install(self, main: ModuleType) -> None:
        """Replace an earlier submission's finder, and forget the modules that it loaded."""
        for earlier in [each for each in sys.meta_path if isinstance(each, SiblingFinder)]:
            earlier.uninstall()
        self.loaded_before = frozenset(name.partition(".")[0] for name in sys.modules)
        self.modules = {self.main: main}
        if self.files:
            sys.meta_path.insert(0, self)

    def uninstall(self) -> None:
        """Remove the finder, and forget all modules that it loaded."""
        sys.meta_path.remove(self)
        for name in self.places:
            sys.modules.pop(name, None)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        place = self._find_place(fullname)
        if place is None:
            return None
        self.places[fullname] = place
        loader = _SiblingLoader(self, place)
        return spec_from_loader(fullname, loader, is_package=self._is_package(place))

    def _is_package(self, place: Place) -> bool:
        """Whether it is a folder with an `__init__.py`, or one with no file of the same name."""
        has_code = (*place, PACKAGE_FILE) in self.files
        return place in self.folders and (has_code or place not in self.files)

    def _find_place(self, fullname: str) -> Place | None:
        parent, _, name = fullname.rpartition(".")
        if parent == TOP:
            candidates: list[Place] = [(name,)]
        elif parent in self.places:
            candidates = [(*self.places[parent], name)]
        elif parent or name in RESERVED or name in self.loaded_before:
            return None
        else:
            inside = self.main[:-1]
            candidates = [(*inside[:n], name) for n in range(len(inside), -1, -1)]
        known = (p for p in candidates if p in self.files or p in self.folders or p == self.main)
        return next(known, None)

    def execute(self, place: Place, module: ModuleType) -> None:
        """Run a file in its module, unless it has already been run."""
        self._name(module, place)
        if place in self.modules:
            return
        self.modules[place] = module
        if self._is_package(place):
            _run_when_asked(module, self, place)
            return
        # By this Python tells a name that is not there yet, in a circle, from one that never is.
        state = vars(module.__spec__)
        state["_initializing"] = True
        try:
            self.run(place, module)
        except BaseException:
            del self.modules[place]  # the next import tries again, and fails alike
            raise
        finally:
            state["_initializing"] = False

    def _name(self, module: ModuleType, place: Place) -> None:
        """Name a module by its place, so that relative imports work under any name."""
        if place == self.main:
            module.__spec__ = None  # as that of any script
            return
        name = ".".join((TOP, *place))
        loader, is_package = _SiblingLoader(self, place), self._is_package(place)
        module.__name__, module.__loader__ = name, loader
        module.__package__ = name if is_package else name.rpartition(".")[0]
        module.__spec__ = spec_from_loader(name, loader, is_package=is_package)

    def run(self, file: Place, module: ModuleType) -> Mapping[str, BaseException]:
        """Run a file in a module; return the errors of what it could not bind, by name.

        Who asks the module for such a name gets its error.
        """
        module.__file__ = "/".join(self.files[file])
        absent: dict[str, BaseException] = {}
        for binds, code in self._compile(file):
            try:
                exec(code, module.__dict__)
            except (ModuleNotFoundError, NameError) as error:
                known = {**self.absent, **absent}
                if type(error) is NameError and error.name not in known:
                    raise
                cause = error if isinstance(error, ImportError) else known[error.name or ""]
                absent.update(dict.fromkeys(binds, cause))
        if absent and "__getattr__" not in vars(module):
            vars(module)["__getattr__"] = partial(_raise_absent, absent)
        self.absent.update(absent)
        return absent

    def _compile(self, file: Place) -> Iterator[tuple[set[str], CodeType]]:
        """Yield what each statement of a file binds, and its code. Raises SyntaxError, Refused."""
        name = "/".join(self.files[file])
        try:
            [cell] = read_source(self.data[file], "py").cells
        except Unreadable as problem:
            raise Refused(f"{name}: {problem}") from None
        lines = cell.text.splitlines(keepends=True)
        linecache.cache[name] = (len(cell.text), None, lines, name)
        if cell.error is not None:
            raise SyntaxError(cell.error.message, (name, cell.error.line, None, None))
        tree, flags = parse(cell.text), 0
        for node in tree.body:
            effects = analyse_effects(node)
            flags |= effects.future
            code = compile(ast.Module([node], []), name, "exec", flags, dont_inherit=True)
            yield effects.binds, code

    def holds(self, name: str) -> bool:
        """Whether a file or folder of this name came with the submission."""
        return any(name in place for place in (*self.files, *self.folders))

    def get_problem(self, name: str) -> str | None:
        """Return why the file of a module was not included; None if there is no such file."""
        wanted = name.strip(".").replace(".", "/")
        for path, problem in self.problems.items():
            module = path.removesuffix(".py").removesuffix(f"/{PACKAGE_FILE}")
            if module == wanted or module.endswith(f"/{wanted}"):
                return f"{path} {problem}"
        return None

    def locate(self, trace: TracebackType | None, own: Container[str | None]) -> str | None:
        """Return the file and line that raised an error; None if they are in the submission itself.

        `own` are the file names under which the code of the submission itself is compiled.
        """
        known = {"/".join(path) for path in self.files.values()}
        innermost = None
        while trace is not None:
            name = trace.tb_frame.f_code.co_filename
            if name in known:
                innermost = f"{name}, line {trace.tb_lineno}"
            elif name in own:
                innermost = None
            trace = trace.tb_next
        return innermost


class _SiblingLoader(Loader):
    """Loads one of the files that came with a submission."""

    def __init__(self, finder: SiblingFinder, place: Place) -> None:
        self.finder = finder
        self.place = place

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.finder.modules.get(self.place)

    def exec_module(self, module: ModuleType) -> None:
        self.finder.execute(self.place, module)


def _raise_absent(absent: Mapping[str, BaseException], name: str) -> NoReturn:
    raise absent.get(name) or AttributeError(f"there is no name {name!r}")


def _run_when_asked(module: ModuleType, finder: SiblingFinder, place: Place) -> None:
    """Run a package's own code when a name is requested that it does not have yet."""
    file = (*place, PACKAGE_FILE)
    pending = [file] * (file in finder.files)

    def get_missing(name: str) -> Any:
        is_module = (*place, name) in finder.files or (*place, name) in finder.folders
        is_special = name.startswith("__") and name != "__all__"
        if pending and not is_module and not is_special:
            pending.clear()  # what runs may ask for names, too
            try:
                absent = finder.run(file, module)
            except BaseException:
                pending.append(file)
                raise
            if name in vars(module):
                return vars(module)[name]
            for error in absent.values():  # one of these would have bound it
                raise error
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

    vars(module)["__getattr__"] = get_missing
