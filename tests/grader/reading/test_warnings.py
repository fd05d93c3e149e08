"""Remarks: what they say, and where they keep silent."""

import json

import pytest

from headcheck.grader.reading.cells import READ_BY, read_source
from headcheck.grader.reading.outline import CodeWarning, find_warnings
from tests.notebooks import read_notebook

IMPORTS = "import torch\nfrom torch import nn"


def found(*cells: str) -> tuple[CodeWarning, ...]:
    return find_warnings(read_notebook(IMPORTS, *cells), "Wanted")


def said(*cells: str) -> list[str]:
    return [remark.message for remark in found(*cells)]


def kinds(*cells: str) -> list[str]:
    return [remark.kind for remark in found(*cells)]


# -------------------------------------------------------------------------- in general


def test_clean_definition_gets_no_warning() -> None:
    wanted = (
        "class Wanted(nn.Module):\n"
        "    def __init__(self, d_in: int, d_out: int, bias: bool = False):\n"
        "        super().__init__()\n"
        "        self.W = nn.Linear(d_in, d_out, bias=bias)\n"
        "        self.v = nn.Parameter(torch.randn(d_in))\n"
        "        self.register_buffer('mask', torch.ones(d_in, d_in))\n"
        "        self.sizes, self.scale, self.n = [d_in], d_out**-0.5, 3\n"
        "    def forward(self, x):\n"
        "        return self.W(x) * self.v"
    )
    assert said("d_in, d_out = 3, 2\nx = torch.ones(2, 3)\nbias = True", wanted) == []
    assert said("x = 1") == [], "nor does a name that nothing defines"


def test_every_used_variable_gets_one_warning_in_order() -> None:
    source = read_notebook(
        "n = 1",
        "def scale(x): return x * n",
        "class Head:\n    def forward(self, x): return scale(x)",
        "class Other:\n    def forward(self, x): return n",
        "class Wanted(Head):\n    def __init__(self): self.heads = [Head(), Head()]\n"
        "    def forward(self, x): return n + scale(x)",
    )
    found = find_warnings(source, "Wanted")
    assert [(remark.cell, remark.line) for remark in found] == [(2, 1), (5, 3)]
    assert find_warnings(source, "Wanted") == found


def test_alias_gets_the_warnings_of_its_class() -> None:
    cells = ("n = 1", "class A:\n    def forward(self, x): return x + n", "Wanted = A")
    assert kinds(*cells) == ["notebook_variable"]


# ------------------------------------------------------------------- notebook variables


def test_reading_a_notebook_variable_is_named_with_both_places() -> None:
    source = read_notebook(
        "masked = compute()", "class Wanted:\n    def forward(self, x):\n        return masked @ x"
    )
    reads = "`forward` of `Wanted` reads the notebook variable `masked` (set in cell 1)"
    told = f"{reads}; a class should use its own arguments and attributes"
    assert find_warnings(source, "Wanted") == (CodeWarning("notebook_variable", told, 2, 3),)


def test_functions_and_modules_are_named_as_such() -> None:
    source = read_source(b"n = f()\ndef Wanted(x):\n    return x * n\n", "py")
    [remark] = find_warnings(source, "Wanted")
    reads = "`Wanted` reads the module variable `n` (set on line 1)"
    assert remark.message == f"{reads}; a function should use its own arguments"
    assert (remark.cell, remark.line) == (None, 3)


def test_constants_are_mentioned_without_advice() -> None:
    reads = "class Wanted:\n    def forward(self, x): return x * SCALE"
    told = "`forward` of `Wanted` reads the notebook variable `SCALE` (set in cell 2)"
    assert said("SCALE = 2.5", reads) == [told]
    for cells in (("SCALE = f()",), ("SCALE = 1", "SCALE = 2"), ("SCALE = [1]", "SCALE[0] = 2")):
        assert "should use its own" in said(*cells, reads)[0]


@pytest.mark.parametrize(
    "binding",
    [
        "n = 1 * 2",
        "n: int = f()",
        "n, m = 1, 2",
        "for n in range(3): pass",
        "with f() as n: pass",
        "if f(): n = 3",
        "print(n := 3)",
        "n = 1\nn += torch.pi",
        "m = f()\nn = m.x",
        "import n\nn = 3 + 4",
    ],
)
@pytest.mark.parametrize(
    "function",
    [
        "def forward(self, x): return x + n",
        "def forward(self, x, k=n): return x + k",
        "def forward(self, x): return (lambda: x + n)()",
        "def helper(self):\n        def inner(): return n\n        return inner",
    ],
)
def test_every_assigned_name_is_a_variable(binding: str, function: str) -> None:
    assert kinds(binding, f"class Wanted:\n    {function}") == ["notebook_variable"]


@pytest.mark.parametrize(
    "binding",
    [
        "import n",
        "from m import n",
        "def n(): pass",
        "class n: pass",
        "n = lambda x: x",
        "n = namedtuple('n', 'a b')",
        "n = collections.namedtuple('n', 'a b')",
        "n = torch.nn",
        "n = torch.float32",
        "m = torch.nn\nn = m.Linear",
        "n = print",
        "try:\n    import n\nexcept ImportError:\n    n = None",
        "if __name__ == '__main__':\n    n = 3",
    ],
)
def test_imports_definitions_and_their_other_names_are_no_variables(binding: str) -> None:
    assert kinds(binding, "class Wanted:\n    def forward(self, x): return x + n") == []


@pytest.mark.parametrize(
    "wanted",
    [
        "class Wanted:\n    def forward(self, n): return n",
        "class Wanted:\n    n = 1\n    def forward(self, x, k=n): return x + k",
        "class Wanted:\n    def forward(self, x: n) -> n: return x",
        "class Wanted:\n    def forward(self, x):\n        n = x\n        return n",
        "class Wanted:\n    def forward(self, x): return self.n + x",
    ],
)
def test_local_names_are_no_notebook_variables(wanted: str) -> None:
    assert kinds("n = 2", wanted) == []


# ----------------------------------------------------------------------------- prints


def test_printing_in_forward_is_counted_where_it_starts() -> None:
    wanted = (
        "class Wanted:\n    def __init__(self): print('once')\n"
        "    def forward(self, x):\n        y = x\n        print(y)\n        print(x)\n"
    )
    told = "`forward` of `Wanted` calls print 2 times; its answer is what it returns"
    assert find_warnings(read_notebook(wanted), "Wanted") == (CodeWarning("prints", told, 1, 5),)


PRINTS = "class A:\n def forward(self, x): print(x)"


@pytest.mark.parametrize(
    ("cells", "label"),
    [
        (["def Wanted(x): print(x)"], "`Wanted`"),
        (["class Wanted:\n def __call__(self, x): print(x)"], "`__call__` of `Wanted`"),
        (
            ["class Wanted:\n def forward(me, x): me.show(x)\n def show(self, x): print(x)"],
            "`show` of `Wanted`",
        ),
        (["def show(x): print(x)", "class Wanted:\n def forward(self, x): show(x)"], "`show`"),
        ([PRINTS, "class Wanted(A): pass"], "`forward` of `A`"),
        (
            [
                "class A:\n def forward(self, x): self.show(x)\n def show(self, x): return x",
                "class Wanted(A):\n def show(self, x): print(x)",
            ],
            "`show` of `Wanted`",
        ),
        (
            [PRINTS, "class Wanted(A):\n def forward(self, x): return super().forward(x)"],
            "`forward` of `A`",
        ),
        ([PRINTS, "class Wanted:\n def __init__(self): self.head = A()"], "`forward` of `A`"),
    ],
)
def test_printing_is_found_in_all_that_forward_calls(cells: list[str], label: str) -> None:
    assert said(*cells) == [f"{label} calls print once; its answer is what it returns"]


@pytest.mark.parametrize(
    "cells",
    [
        ["class Wanted:\n def __init__(self): print(1)\n def forward(self, x): return x"],
        ["class Wanted:\n def show(self): print(1)\n def forward(self, x): return x"],
        [PRINTS, "class Wanted(A):\n def forward(self, x): return x"],
        ["def make(): print(1)", "class Wanted:\n def __init__(self): make()"],
        ["def print(x): pass", "class Wanted:\n def forward(self, x): print(x)"],
        ["class Wanted:\n def forward(self, x, print): print(x)"],
        ["class Wanted:\n def forward(self, x): log.print(x)"],
    ],
)
def test_conditional_print_gets_no_warning(cells: list[str]) -> None:
    assert [kind for kind in kinds(*cells) if kind == "prints"] == []


# ------------------------------------------------------------------------ defined twice


def test_the_position_is_that_of_the_one_in_force() -> None:
    wanted = "class Wanted: pass"
    [warning] = found(wanted, wanted)
    assert (warning.cell, warning.line) == (3, 1)


def test_a_base_is_what_it_was_when_its_class_was_defined() -> None:
    [warning] = found("class A: pass", "class Wanted(A): pass", "class A: x = 1")
    told = "`A` is defined in cells 2 and 4; the one before `Wanted` counts there"
    assert (warning.message, warning.cell, warning.line) == (told, 2, 1)


def test_a_second_definition_in_a_broken_cell_is_named() -> None:
    wanted = "class Wanted:\n    pass"
    assert said(wanted, f"x = 1\n{wanted}\n    def f(:") == [
        "`Wanted` is defined again in cell 3, of which nothing can be used: "
        f"invalid syntax ({READ_BY}), line 4; that in cell 2 counts"
    ]
    assert said("def f(:\nclass Wanted: pass", wanted) == []
    assert said(wanted, "def f(:\nclass WantedToo: pass") == []


def test_a_second_definition_is_named_with_its_cells() -> None:
    wanted = "class Wanted: pass"
    assert said(wanted, wanted) == ["`Wanted` is defined in cells 2 and 3; the last one counts"]
    told = "`Wanted` is defined in cells 2, 3 and 4; the last one counts"
    assert said(wanted, wanted, wanted) == [told]
    told = "`Wanted` is defined in cell 2 line 1 and cell 2 line 2; the last one counts"
    assert said(f"{wanted}\n{wanted}") == [told]
    [remark] = find_warnings(read_source(f"{wanted}\n{wanted}".encode(), "py"), "Wanted")
    assert remark.message == "`Wanted` is defined on lines 1 and 2; the last one counts"
    assert remark.line == 2


def test_alternatives_in_one_statement_are_one_definition() -> None:
    assert kinds("if x:\n def Wanted(): pass\nelse:\n def Wanted(): pass") == []


# --------------------------------------------------------------------- unused arguments


@pytest.mark.parametrize(
    ("wanted", "label"),
    [
        ("class Wanted:\n def __init__(self, a, b=1): self.a = a", "`__init__` of `Wanted`"),
        ("class Wanted:\n def __init__(self, a, *, b): self.a = a", "`__init__` of `Wanted`"),
        ("class Wanted:\n def forward(self, a, b=1): return a", "`forward` of `Wanted`"),
        ("def Wanted(a, b): return a", "`Wanted`"),
        ("def Wanted(a, b):\n b = a\n return a", "`Wanted`"),
        ("class Wanted:\n @staticmethod\n def forward(b, a): return a", "`forward` of `Wanted`"),
    ],
)
def test_an_argument_that_is_never_read_is_named(wanted: str, label: str) -> None:
    assert said(wanted) == [f"{label} never uses its argument `b`"]


@pytest.mark.parametrize(
    "wanted",
    [
        "def Wanted(a, _b, *args, **kwargs): return a",
        "def Wanted(a): return lambda: a",
        "def Wanted(a):\n a += 1",
        "def Wanted(a):\n del a",
        "def Wanted(a): return locals()",
        "def Wanted(a):\n 'Say.'\n raise NotImplementedError",
        "def Wanted(a): ...",
        "def Wanted(a):\n 'Later.'\n pass",
        "class Wanted:\n def __init__(self): pass\n def helper(self, a): return 1",
    ],
)
def test_used_or_optional_arguments_get_no_warning(wanted: str) -> None:
    assert kinds(wanted) == []


# ------------------------------------------------------------------------- unregistered


def module(line: str) -> str:
    return f"class Wanted(nn.Module):\n    def __init__(self):\n        {line}"


@pytest.mark.parametrize(
    "line",
    [
        "self.w = torch.randn(3, 3)",
        "self.w: torch.Tensor = torch.zeros(3)",
        "self.w = torch.rand(3) * 0.02",
        "self.w = -torch.ones(3)",
        "self.w = torch.tril(torch.ones(3, 3)).view(1, 3, 3).bool()",
        "self.w = torch.empty(3).T",
        "self.w = torch.Tensor(3)[0]",
        "w = torch.tensor([1.0]); self.w = w / 3",
        "self.w, self.n = torch.ones(3), 3",
        "self.w = torch.sqrt(torch.ones(3))",
        "self.w = randn(3)",
        "self.n = self.w = torch.ones(3); self.n = 3",
    ],
)
def test_a_tensor_as_a_plain_attribute_is_named(line: str) -> None:
    source = read_notebook(IMPORTS, "from torch import randn", module(line))
    unseen = "optimizers, state_dict and .to(device) do not see it"
    told = f"`self.w` of `Wanted` is a plain tensor: {unseen}"
    assert find_warnings(source, "Wanted") == (CodeWarning("unregistered", told, 3, 3),)


@pytest.mark.parametrize(
    "line",
    [
        "self.w = nn.Parameter(torch.randn(3))",
        "self.w = torch.nn.Parameter(torch.randn(3))",
        "self.register_buffer('w', torch.ones(3))",
        "self.w = 3",
        "self.w = [1.0, 2.0]",
        "self.w = nn.Linear(3, 3)",
        "self.w = torch.ones(3).size()",
        "self.w = torch.ones(3).sum().item()",
        "self.w = torch.ones(3).shape[0]",
        "self.w = torch.numel(torch.ones(3))",
        "self.w = torch.float32",
        "self.w = np.zeros(3)",
        "w = torch.ones(3); w = nn.Parameter(w); self.w = w",
        "self.w = torch.ones(3); self.w = nn.Parameter(torch.ones(3))",
        "other.w = torch.ones(3)",
        "w = torch.ones(3)",
        "def later():\n            self.w = torch.ones(3)",
    ],
)
def test_registered_tensors_and_other_values_get_no_warning(line: str) -> None:
    assert kinds(module(line)) == []


def test_torch_may_have_another_name_and_a_plain_class_may_hold_tensors() -> None:
    source = read_notebook("import torch as t", module("self.w = t.ones(3)"))
    assert [remark.kind for remark in find_warnings(source, "Wanted")] == ["unregistered"]
    assert kinds("class Wanted:\n    def __init__(self): self.w = torch.ones(3)") == []


def test_what_counts_is_decided_by_the_order_of_the_cells_and_not_by_their_numbers() -> None:
    def read(*counts: int) -> list[str]:
        texts = "class Wanted: pass", "def f(:\nclass Wanted: pass"
        numbered = zip(texts, counts, strict=True)
        cells = [{"cell_type": "code", "source": t, "execution_count": n} for t, n in numbered]
        source = read_source(json.dumps({"cells": cells}).encode(), "ipynb")
        return [each.message for each in find_warnings(source, "Wanted")]

    for counts in ((5, 2), (2, 5)):
        [message] = read(*counts)
        assert f"is defined again in cell {counts[1]}, of which nothing" in message
        assert message.endswith(f"that in cell {counts[0]} counts")
