"""Slices: exactly the statements that a definition needs, and the places they come from."""

import sys
import traceback
from typing import Any

import pytest

from headcheck.grader.reading.cells import SubmissionSource, read_source
from headcheck.grader.reading.slicing import Statement, compute_slice, get_filename, locate_error
from tests.notebooks import read_notebook


def cells_of(source: SubmissionSource, name: str) -> list[int | None]:
    return [step.cell for step in compute_slice(source, name)]


def run(steps: tuple[Statement, ...]) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "submission"}
    for step in steps:
        exec(step.compile(), namespace)
    return namespace


def wanted_of(source: SubmissionSource, name: str = "Wanted") -> Any:
    """What the slice of a definition makes of its name."""
    return run(compute_slice(source, name))[name]


def kept(*cells: str, name: str = "Wanted") -> list[int | None]:
    """The cells of a notebook, one statement each, that `name` needs."""
    return cells_of(read_notebook(*cells), name)


# ------------------------------------------------------------------- what is included


def test_imports_helpers_constants_and_bases_come_along_in_order() -> None:
    source = read_notebook(
        "import math\nimport json",
        "SCALE = 2",
        "def scaled(x): return x * SCALE / math.sqrt(4)",
        "class Base:\n    def go(self, x): return scaled(x)",
        "unrelated = 1",
        "class Wanted(Base): pass",
        "print(Wanted().go(3))",
    )
    steps = compute_slice(source, "Wanted")
    assert [step.cell for step in steps] == [1, 2, 3, 4, 6]
    assert [step.effects.binds for step in steps][:2] == [{"math"}, {"SCALE"}]
    assert run(steps)["Wanted"]().go(3) == 3.0


def test_a_global_read_in_a_method_brings_the_chain_that_computes_it() -> None:
    source = read_notebook(
        "inputs = [1, 2, 3]",
        "class First:\n    def __call__(self, x): return [2 * v for v in x]",
        "first = First()",
        "scores = first(inputs)",
        "weights = [s / sum(scores) for s in scores]",
        "masked = [s for s in scores if s > 2]",
        "class Causal:\n    def forward(self, x): return masked",
        "class Parallel:\n    def forward(self, x): return x",
    )
    assert cells_of(source, "Causal") == [1, 2, 3, 4, 6, 7]
    assert wanted_of(source, "Causal")().forward(0) == [4, 6]
    assert cells_of(source, "Parallel") == [8]


@pytest.mark.parametrize(
    "wanted",
    [
        "@helper\ndef Wanted(): pass",
        "def Wanted(x=helper): pass",
        "def Wanted(*, x=helper): pass",
        "def Wanted(x: helper): pass",
        "def Wanted() -> helper: pass",
        "def Wanted():\n def inner():\n  return helper\n return inner",
        "async def Wanted(): return [helper async for x in y]",
        "Wanted = lambda x: helper",
        "Wanted = [helper for x in y]",
        "Wanted = {k: helper for k in y}",
        "Wanted = [x for x in helper]",
        "Wanted = (helper for x in y)",
        "Wanted = f'{helper}'",
        "Wanted: int = helper",
        "Wanted: helper = 3",
        "class Wanted(helper): pass",
        "class Wanted(metaclass=helper): pass",
        "@helper\nclass Wanted: pass",
        "class Wanted:\n x = helper",
        "class Wanted:\n x: helper",
        "class Wanted:\n def f(self): return helper",
        "class Wanted:\n helper = helper",
        "class Wanted:\n helper = 3\n def f(self): return helper",
        "class Wanted:\n ys = 3\n zs = [helper for y in ys]",
        "if helper: Wanted = 1",
        "try:\n Wanted = 1\nexcept helper:\n pass",
        "with helper() as Wanted: pass",
        "for Wanted in helper: pass",
        "while helper: Wanted = 1",
        "match helper:\n case Wanted: pass",
        "match y:\n case helper(): Wanted = 1",
        "match y:\n case helper.x: Wanted = 1",
        "print(Wanted := helper)",
        "(Wanted, z) = helper",
        "Wanted = 1\nWanted += helper",
        "def Wanted():\n global helper\n helper += 1",
        "def Wanted():\n def f():\n  nonlocal x\n  x = helper\n x = 1",
        "def Wanted():\n x: int = helper",
        "def Wanted(x):\n with x as y: return helper",
    ],
)
def test_every_way_to_read_a_name_needs_it(wanted: str) -> None:
    assert 1 in kept("helper = 1", wanted)


@pytest.mark.parametrize(
    "wanted",
    [
        "def Wanted(helper): return helper",
        "def Wanted(*helper): return helper",
        "def Wanted(**helper): return helper",
        "def Wanted(*, helper): return helper",
        "Wanted = lambda helper: helper",
        "def Wanted():\n helper = 1\n return helper",
        "def Wanted():\n helper = 1\n def inner(): return helper\n return inner",
        "def Wanted():\n if x: print(helper)\n helper = 1",
        "def Wanted():\n for helper in x: print(helper)",
        "def Wanted():\n with x as helper: print(helper)",
        "def Wanted():\n import helper\n return helper",
        "def Wanted():\n import helper.part\n return helper",
        "def Wanted():\n def helper(): return helper\n return helper",
        "def Wanted():\n class helper: pass\n return helper",
        "def Wanted():\n try: pass\n except E as helper: print(helper)",
        "def Wanted():\n if (helper := 1): print(helper)",
        "def Wanted():\n [helper := x for x in y]\n return helper",
        "def Wanted():\n match x:\n  case [helper, *_]: return helper",
        "def Wanted():\n match x:\n  case [_, *helper]: return helper",
        "def Wanted():\n match x:\n  case {'a': 1, **helper}: return helper",
        "def Wanted():\n x: helper = 1",
        "def Wanted(x: 'helper'): pass",
        "def Wanted(x) -> 'helper': pass",
        "Wanted = [helper for helper in x]",
        "Wanted = {helper: v for helper, v in x}",
        "Wanted = [y for x in z for helper in x for y in helper]",
        "class Wanted:\n helper = 1\n x = helper",
        "class Wanted:\n def helper(self): return self.helper",
        "Wanted = x.helper",
        "Wanted = f(helper=1)",
        "Wanted = 'helper'",
        "for helper in x: Wanted = helper",
        "with x as helper: Wanted = helper",
        "if x:\n helper = 1\n Wanted = helper",
    ],
)
def test_a_local_name_needs_nothing(wanted: str) -> None:
    assert kept("helper = 1", wanted) == [2]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="syntax of Python 3.12")
def test_type_aliases_and_type_parameters() -> None:
    assert kept("helper = int", "type Wanted = list[helper]") == [1, 2]
    assert kept("T = int", "class Wanted[T]:\n def f(self, x: T) -> T: return x") == [2]
    assert kept("T = int", "def Wanted[T](x: T) -> T: return x") == [2]
    assert kept("T = int", "type Wanted[T] = list[T]") == [2]
    assert kept("B = int", "def Wanted[T: B](x: T) -> T: return x") == [1, 2]


def test_annotations_are_not_read_under_the_future_import() -> None:
    future = "from __future__ import annotations"
    assert kept(future, "helper = 1", "def Wanted(x: helper): pass") == [1, 3]
    assert kept("helper = 1", "def Wanted(x: helper): pass", future) == [1, 2, 3]


# ------------------------------------------------------------------ several definitions


def test_the_last_definition_wins() -> None:
    source = read_notebook("n = 1", "def Wanted(): return 1", "n = 2", "def Wanted(): return n")
    assert cells_of(source, "Wanted") == [3, 4]
    assert wanted_of(source)() == 2


def test_a_global_read_later_has_its_last_value() -> None:
    source = read_notebook("n = 1", "def Wanted(): return n", "n = 2", "m = n")
    assert cells_of(source, "Wanted") == [2, 3]


def test_base_is_the_class_bound_at_definition_time() -> None:
    source = read_notebook(
        "class A: value = 1", "class Wanted(A): pass", "class A: value = 2", "class C(A): pass"
    )
    assert cells_of(source, "Wanted") == [1, 2]
    assert wanted_of(source).value == 1
    assert cells_of(source, "C") == [3, 4]


def test_changing_a_base_afterwards_changes_the_class() -> None:
    source = read_notebook(
        "class A: value = 1", "class Wanted(A): pass", "A.value = 2", "A = 3", "A.value = 4"
    )
    assert cells_of(source, "Wanted") == [1, 2, 3]
    assert wanted_of(source).value == 2


def test_redefining_from_itself_needs_the_earlier_one() -> None:
    assert kept("x = 1", "x = x + 1", "Wanted = x", "x = 5") == [1, 2, 3]
    assert kept("x = 1", "x += 1", "x: int", "Wanted = x") == [1, 2, 4]
    assert kept("def Wanted(): pass", "Wanted = jit(Wanted)") == [1, 2]


def test_early_call_needs_the_globals_bound_at_that_time() -> None:
    source = read_notebook(
        "n = 1", "def helper(): return n", "early = helper()", "n = 2", "Wanted = lambda: early"
    )
    assert wanted_of(source)() == 1
    source = read_notebook("n = 1", "Wanted = [*map(lambda x: x * n, [1])]", "n = 2")
    assert wanted_of(source) == [1]


def test_function_that_outlives_its_name_reads_final_globals() -> None:
    made = ("n = 1", "def old(): return n", "def make(): return old", "Wanted = make()")
    assert wanted_of(read_notebook(*made, "def old(): return 0", "n = 2"))() == 2


def test_a_name_bound_on_some_paths_only_keeps_its_earlier_value() -> None:
    assert kept("x = 1", "if y: x = 2", "Wanted = x") == [1, 2, 3]
    assert kept("x = 1", "if y: x = 2\nelse: x = 3", "Wanted = x") == [2, 3]
    assert kept("x = 1", "try: x = 2\nexcept E: pass", "Wanted = x") == [1, 2, 3]
    assert kept("x = 1", "try: import x\nexcept ImportError: x = 3", "Wanted = x") == [2, 3]
    assert kept("x = 1", "with y: x = 2", "Wanted = x") == [2, 3]
    assert kept("x = 1", "for x in y: pass", "Wanted = x") == [1, 2, 3]
    assert kept("x = 1", "match y:\n case 1: x = 2", "Wanted = x") == [1, 2, 3]


def test_deletions_are_kept() -> None:
    source = read_notebook("x = 1", "del x", "def Wanted(): return x")
    with pytest.raises(NameError):
        wanted_of(source)()
    assert kept("d = {1: 2}", "del d[1]", "Wanted = d") == [1, 2, 3]


# ----------------------------------------------------------------------------- changes


@pytest.mark.parametrize(
    "change",
    [
        "Wanted.forward = lambda self: 2",
        "Wanted['n'] = 3",
        "Wanted.a.b[0] = 3",
        "Wanted.n += 1",
        "Wanted.n: int = 1",
        "Wanted.a, y = 1, 2",
        "del Wanted.n",
        "setattr(Wanted, 'n', 3)",
        "delattr(Wanted, 'n')",
        "Wanted.append(3)",
        "Wanted.update(n=3)",
        "for i in range(3): Wanted[i] = i",
        "for i in range(3):\n if i: Wanted.append(i)",
        "import os, Wanted.part",
    ],
)
def test_changing_what_a_name_stands_for_counts_as_binding_it(change: str) -> None:
    assert kept("Wanted = 1", change) == [1, 2]
    assert kept(change, "Wanted = 1") == [2]


@pytest.mark.parametrize(
    "statement",
    [
        "Wanted()",
        "print(Wanted)",
        "Wanted.train()",
        "plt.plot(Wanted)",
        "for epoch in range(3):\n loss = Wanted(epoch)\n loss.backward()",
        "out = Wanted(3)",
        "other.append(Wanted)",
        "getattr(Wanted, 'n')",
        "if __name__ == '__main__':\n Wanted = 3",
        "if '__main__' == __name__:\n Wanted.n = 3",
        "assert Wanted() == 3",
    ],
)
def test_statement_that_only_reads_a_name_is_left_out(statement: str) -> None:
    assert kept("Wanted = 1", statement) == [1]


def test_functions_of_an_imported_module_change_nothing() -> None:
    assert kept("import torch", "torch.add(1, 2)", "Wanted = torch.nn") == [1, 3]


def test_a_call_of_a_function_that_sets_a_global_counts_as_binding_it() -> None:
    cells = ("def setup():\n global n\n n = 3", "def main(): setup()", "main()", "print(1)")
    source = read_notebook(*cells, "def Wanted(): return n")
    assert cells_of(source, "Wanted") == [1, 2, 3, 5]
    assert wanted_of(source)() == 3


def test_the_other_branch_of_the_main_guard_is_kept() -> None:
    assert kept("if __name__ == '__main__':\n x = 1\nelse:\n x = 2", "Wanted = x") == [1, 2]


def test_star_imports_always_come_along() -> None:
    assert kept("from math import *", "def Wanted(x): return x", "from cmath import *") == [1, 2, 3]
    assert kept("from math import *", name="sqrt") == [1]
    assert kept("x = 1", name="sqrt") == []


def test_imports_of_two_submodules_are_both_needed() -> None:
    assert kept("import os.path", "import os.fsencode", "Wanted = os.path") == [1, 2, 3]
    assert kept("import a.b as n", "import a.c as n", "Wanted = n") == [2, 3]


def test_a_name_that_nothing_binds_needs_nothing() -> None:
    assert kept("from __future__ import annotations", "x = 1") == []


def test_cells_that_do_not_parse_are_passed_over() -> None:
    assert kept("def Wanted(): return 1", "def Wanted(:", "%%bash\nWanted=3") == [1]


def test_deep_code_is_sliced() -> None:
    chain = "if a:\n x = 1\n" + "elif b:\n x = 2\n" * 180
    assert kept("a = 1", chain, "Wanted = x") == [1, 2, 3]
    assert kept("a = 1", "Wanted = " + "+".join(["a"] * 190)) == [1, 2]


# ------------------------------------------------------------------ compiling and places


def test_lines_of_a_traceback_are_those_of_the_cell() -> None:
    source = read_notebook("x = 0", "# one\n\ndef Wanted(y):\n    # four\n    return y / x")
    wanted = wanted_of(source)
    with pytest.raises(ZeroDivisionError) as caught:
        wanted(1)
    assert locate_error(caught.value) == (2, 5)
    assert locate_error(caught.tb) == (2, 5)
    assert '"<cell 2>", line 5, in Wanted' in "".join(traceback.format_tb(caught.tb))


def test_the_innermost_frame_of_the_submission_counts() -> None:
    source = read_notebook("def inner(x): return sorted(x)", "def Wanted(x):\n    return inner(x)")
    with pytest.raises(TypeError) as caught:
        wanted_of(source)(3)
    assert locate_error(caught.value) == (1, 1)


def test_module_locations_have_no_cell() -> None:
    source = read_source(b"def Wanted():\n    return 1 / 0\n", "py")
    [step] = compute_slice(source, "Wanted")
    assert (step.cell, step.node.lineno, get_filename(None)) == (None, 1, "<submission>")
    with pytest.raises(ZeroDivisionError) as caught:
        run((step,))["Wanted"]()
    assert locate_error(caught.value) == (None, 2)


def test_line_outside_the_submission_has_no_location() -> None:
    assert locate_error(None) is None
    assert locate_error(ValueError()) is None
    assert locate_error(SyntaxError("x", ("elsewhere.py", 1, 1, ""))) is None
    with pytest.raises(ZeroDivisionError) as caught:
        _ = 1 // 0
    assert locate_error(caught.value) is None


def test_top_level_await_is_refused_at_its_place() -> None:
    [step] = compute_slice(read_notebook("\nWanted = await load()"), "Wanted")
    with pytest.raises(SyntaxError, match="await") as caught:
        step.compile()
    assert locate_error(caught.value) == (1, 2)


def test_code_is_compiled_under_the_name_of_its_cell() -> None:
    [step] = compute_slice(read_notebook("Wanted = 1"), "Wanted")
    assert step.compile().co_filename == get_filename(1) == "<cell 1>"


def test_future_imports_keep_their_effect_and_nothing_is_inherited() -> None:
    wanted = "def Wanted(x: undefined): return x"
    future = read_notebook("from __future__ import annotations", wanted)
    assert wanted_of(future)(3) == 3
    with pytest.raises(NameError):
        wanted_of(read_notebook(wanted, "from __future__ import annotations"))


def test_decorated_definitions_are_placed_at_their_name() -> None:
    [step] = compute_slice(read_notebook("\n@property\ndef Wanted(self): pass"), "Wanted")
    assert step.node.lineno == 3
