"""Importing the files that came with a submission, in its process."""

import sys
from collections.abc import Iterator, Mapping

import pytest
import torch

from headcheck.grader.reading.cells import READ_BY
from headcheck.grader.sandbox.wire import Message
from headcheck.grader.sandbox.worker.importing import SiblingFinder
from headcheck.grader.sandbox.worker.runtime import WorkerRuntime
from tests.grader.sandbox.runtimes import send_load


@pytest.fixture(autouse=True)
def no_module_is_left_behind() -> Iterator[None]:
    yield
    for finder in [each for each in sys.meta_path if isinstance(each, SiblingFinder)]:
        finder.uninstall()
    assert not {"utils", "pkg", "a", "main", "submission.utils"} & sys.modules.keys()
    sys.modules.pop("submission", None)


def load(
    text: str,
    files: Mapping[str, str],
    main: tuple[str, ...] = ("main",),
    problems: Mapping[str, str] | None = None,
) -> tuple[WorkerRuntime, Message]:
    """Have a runtime load what `Wanted` is, with files beside it."""
    host = WorkerRuntime()
    sent = {"source": text, **files}
    described = {"main": main, "files": list(files), "searched": True}
    meta = {"kind": "py", "siblings": {**described, "problems": dict(problems or {})}}
    bodies = tuple((name, torch.tensor(list(data.encode())).byte()) for name, data in sent.items())
    assert host.answer(Message(1, "read", meta, bodies)).op == "ok"
    return host, send_load(host, "Wanted")


def get_wanted(text: str, files: Mapping[str, str], main: tuple[str, ...] = ("main",)) -> object:
    host, reply = load(text, files, main)
    assert reply.op == "ok", reply.meta
    return host.namespace["Wanted"]


def get_message(
    text: str, files: Mapping[str, str], problems: Mapping[str, str] | None = None
) -> str:
    _, reply = load(text, files, problems=problems)
    assert reply.op == "raised"
    return str(reply.meta["message"])


# -------------------------------------------------------------------------- what is found


@pytest.mark.parametrize(
    "text",
    [
        "from utils import n as Wanted",
        "from .utils import n as Wanted",
        "from . import utils\nWanted = utils.n",
        "import utils as u\nWanted = u.n",
        "from utils import *\nWanted = n",
    ],
)
def test_a_module_beside_is_imported(text: str) -> None:
    assert get_wanted(text, {"utils.py": "import math\nn = 3"}) == 3


def test_a_file_is_one_module_by_whatever_name() -> None:
    text = "import utils\nfrom . import utils as other\nWanted = utils is other"
    assert get_wanted(text, {"utils.py": ""}) is True


def test_packages_and_folders_are_imported() -> None:
    files = {
        "pkg/__init__.py": "from .layer import A\nB = 5",
        "pkg/layer.py": "from ..top import n\nA = n",
        "plain/sub/deep.py": "D = 7",
        "top.py": "n = 3",
    }
    text = "from pkg import A, B\nfrom plain.sub.deep import D\nimport pkg.layer\n"
    assert get_wanted(text + "Wanted = [A, B, D, pkg.layer.A]", files) == [3, 5, 7, 3]


def test_a_package_s_own_code_runs_only_if_it_is_needed() -> None:
    files = {"pkg/__init__.py": "import nowhere_at_all", "pkg/layer.py": "A = 3"}
    assert get_wanted("from pkg.layer import A as Wanted", files) == 3
    assert get_wanted("from pkg import layer\nWanted = layer.A", files) == 3
    told = "imports `nowhere_at_all`, which is not installed here and not beside the file"
    assert told in get_message("from pkg import A as Wanted", files)


ABSENT = """
from __future__ import annotations
import not_there as n
from not_there import Base
class Own(Base):
    pass
def turn(x: Nowhere) -> Nowhere:
    return n.turn(x)
def keep(x: Nowhere) -> Nowhere:
    return x
"""


def test_what_needs_no_absent_module_is_imported_from_a_file_beside() -> None:
    files = {"utils.py": ABSENT}
    assert get_wanted("from utils import keep\nWanted = keep(3)", files) == 3
    assert get_wanted("from utils import *\nWanted = keep(3)", files) == 3


@pytest.mark.parametrize(
    "text", ["from utils import Own as Wanted", "from utils import turn\nWanted = turn(3)"]
)
def test_what_needs_an_absent_module_says_so(text: str) -> None:
    assert "imports `not_there`" in get_message(text, {"utils.py": ABSENT})


def test_a_name_that_a_file_beside_lacks_is_an_error_of_its_own() -> None:
    assert "NameError" in get_message("from utils import n as Wanted", {"utils.py": "n = m"})


def test_a_submission_in_a_package_has_its_relatives() -> None:
    files = {
        "pkg/__init__.py": "",
        "pkg/mask.py": "n = 3",
        "pkg/sub/near.py": "from pkg.mask import n\nfrom . import near as itself\nm = n",
    }
    text = "from ..mask import n\nfrom near import m\nfrom pkg.sub import near\n"
    wanted = text + "Wanted = [n, m, near.m, near.itself is near]"
    assert get_wanted(wanted, files, ("pkg", "sub", "main")) == [3, 3, 3, True]


def test_imports_in_circles_work_as_in_python() -> None:
    files = {"a.py": "import b\nx = 1", "b.py": "import a\nimport main\ny = 2"}
    assert get_wanted("import a, b\nWanted = a.x + b.y", files) == 3
    files = {"a.py": "from b import y\nx = 1", "b.py": "from a import x\ny = 2"}
    assert "ImportError: cannot import name 'x' from partially initialized module 'a'" in (
        get_message("from a import x as Wanted", files)
    )


def test_classes_of_a_module_beside_can_be_pickled() -> None:
    text = "import pickle, utils\nWanted = pickle.loads(pickle.dumps(utils.A())).n"
    assert get_wanted(text, {"utils.py": "class A:\n    n = 3"}) == 3


# ----------------------------------------------------------------- what cannot be replaced


@pytest.mark.parametrize(
    "name", ["torch", "math", "sitecustomize", "numpy", "headcheck", "builtins"]
)
def test_no_file_takes_the_place_of_what_is_there(name: str) -> None:
    before = sys.modules.get(name)
    files = {f"{name}.py": "raise RuntimeError('executed')", "utils.py": "import torch, math"}
    assert get_wanted("import torch, math, utils\nWanted = torch.ones(1).item()", files) == 1
    assert sys.modules.get(name) is before


def test_a_file_goes_before_what_is_only_installed() -> None:
    assert "einops" not in sys.modules
    assert get_wanted("import einops\nWanted = einops.n", {"einops.py": "n = 3"}) == 3


def test_the_next_submission_finds_nothing_of_the_last() -> None:
    assert get_wanted("from utils import n as Wanted", {"utils.py": "n = 3"}) == 3
    assert get_wanted("from utils import n as Wanted", {"utils.py": "n = 4"}) == 4
    assert "`utils`, which is not beside the file" in get_message("from utils import Wanted", {})


# ------------------------------------------------------------------------- what is said

BROKEN = "import utils\nWanted = utils.f()"


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("\n\n1 / 0", "ZeroDivisionError: division by zero (utils.py, line 3)"),
        ("def f():\n    return 1 / 0", "ZeroDivisionError: division by zero (utils.py, line 2)"),
        ("x = 1\ndef f(:", f"SyntaxError: invalid syntax ({READ_BY}) (utils.py, line 2)"),
        ("x = '\0'", "utils.py: The file is not text: line 1 holds a NUL byte."),
        ("raise SystemExit", "SystemExit (utils.py, line 1)"),
        ("import other", "ZeroDivisionError: division by zero (other.py, line 1)"),
        ("x = (" + "-" * 9000 + "1)", "SyntaxError: "),
    ],
)
def test_an_error_in_a_module_beside_is_located_in_it(file: str, told: str) -> None:
    _, reply = load(BROKEN, {"utils.py": file, "other.py": "1 / 0"})
    assert reply.op == "raised" and told in reply.meta["message"], reply.meta
    assert reply.meta["line"] in (1, 2), "and where the submission imports or calls it"


def test_an_error_back_in_the_submission_is_located_there() -> None:
    text = "import utils\ndef g():\n    return 1 / 0\nWanted = utils.call(g)"
    _, reply = load(text, {"utils.py": "def call(g):\n    return g()"})
    assert reply.meta["message"] == "ZeroDivisionError: division by zero"
    assert reply.meta["line"] == 3


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("from utils import Wanted", "imports `utils`, which is not beside the file; hand it in"),
        ("from .attn import Wanted", "imports `.attn`, which is not beside the file; hand it in"),
        ("from pkg.no import Wanted", "imports `pkg.no`, which is not beside the file; hand it in"),
        ("import timm\nWanted = timm.x", "imports `timm`, which is not installed here and not bes"),
        (
            "from ..up import Wanted",
            "imports from above the folder that was handed in; hand in the",
        ),
        ("from big import Wanted", "imports `big`, but big.py is too large"),
    ],
)
def test_a_missing_module_is_told_with_what_to_do(statement: str, told: str) -> None:
    files = {"pkg/there.py": ""}
    message = get_message(statement, files, problems={"big.py": "is too large"})
    assert message.partition(": ")[2].startswith(told)


def test_where_nothing_was_searched_that_is_said() -> None:
    host = WorkerRuntime()
    source = (("source", torch.tensor(list(b"from utils import Wanted")).byte()),)
    host.answer(Message(1, "read", {"kind": "py"}, source))
    reply = send_load(host, "Wanted")
    assert "imports `utils`; other files are not taken along here" in reply.meta["message"]


def test_reading_executes_no_file_beside() -> None:
    _, reply = load("Wanted = 1", {"utils.py": "raise SystemExit"})
    assert reply.op == "ok"
