"""The host, without a process: reading, loading, building, and the tensors of what was built."""

import inspect
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headcheck.grader.sandbox.wire import Message
from headcheck.grader.sandbox.worker import runtime
from headcheck.grader.sandbox.worker.runtime import WorkerRuntime
from headcheck.properties.subject import CallOptions
from headcheck.properties.violations.violation import SubmissionFailed
from tests.grader.sandbox.runtimes import (
    load_cells,
    make_function,
    make_module,
    make_subject,
    send_load,
    send_read,
)
from tests.notebooks import write_notebook

# ------------------------------------------------------------------------ read and load


def test_reading_executes_nothing_and_lists_definitions() -> None:
    cells = "raise SystemExit", "class Wanted:\n    pass", "def broken(:"
    reply = send_read(WorkerRuntime(), write_notebook(*cells))
    assert reply.op == "ok"
    found = reply.meta["value"]
    assert [d["name"] for d in found["definitions"]] == ["Wanted"]
    assert [(b["cell"], b["line"]) for b in found["broken"]] == [(3, 1)]


def test_unreadable_source_becomes_a_reply() -> None:
    reply = send_read(WorkerRuntime(), b"no notebook")
    assert reply.op == "raised"
    assert reply.meta["message"].startswith("The file is not a notebook (not JSON)")


def test_loading_runs_what_is_needed_and_nothing_else() -> None:
    host, reply = load_cells("n = 2", "class Wanted:\n    size = n", "while True: pass")
    assert reply.op == "ok", reply.meta
    assert host.namespace["Wanted"].size == 2


def test_statements_on_one_line_are_all_run() -> None:
    host, reply = load_cells(
        "import math; import torch; n = 3", "class Wanted:\n    r = math.sqrt(n)"
    )
    assert reply.op == "ok", reply.meta
    assert host.namespace["Wanted"].r == 3**0.5


def test_several_names_are_loaded_together_each_statement_once() -> None:
    host, reply = load_cells(
        "log = []",
        "def note(n):\n    log.append(n)\n    return n",
        "a = note(1)",
        "b = note(2) + a",
        names=("b", "a"),
    )
    assert reply.op == "ok", reply.meta
    assert host.namespace["b"] == 3
    assert host.namespace["log"] == [1, 2]


def test_loading_returns_the_code_warnings() -> None:
    _, reply = load_cells(
        "n = 2", "class Wanted(B):\n    def forward(self, x):\n        return x * n"
    )
    assert reply.op == "raised"  # there is no B
    _, reply = load_cells("n = 2", "class Wanted:\n    def forward(self, x):\n        return x * n")
    assert [r["kind"] for r in reply.meta["remarks"]] == ["notebook_variable"]


def test_a_definition_that_survives_an_earlier_error_is_loaded() -> None:
    host, reply = load_cells("import nowhere_at_all", "class Wanted:\n    size = 1")
    assert reply.op == "ok"
    assert host.namespace["Wanted"].size == 1


@pytest.mark.parametrize(
    ("cells", "message", "place"),
    [
        (["", "import nowhere_at_all\nclass Wanted(nowhere_at_all.A): pass"], "nowhere", (1, 1)),
        (["n = 1\nm = n / 0", "class Wanted:\n    size = m"], "ZeroDivisionError: div", (1, 2)),
        (["def f():\n    raise SystemExit(3)", "Wanted = f()"], "SystemExit: 3", (1, 2)),
        (["x = 1", "pass"], "`Wanted` is not defined", (None, None)),
        (["class Wanted:\n    assert False"], "AssertionError", (1, 2)),
    ],
    ids=["import", "chain", "exit", "nothing", "no message"],
)
def test_loading_error_is_reported_with_its_location(
    cells: list[str], message: str, place: tuple[int | None, int | None]
) -> None:
    _, reply = load_cells(*cells)
    assert reply.op == "raised"
    assert message in reply.meta["message"]
    assert (reply.meta["cell"], reply.meta["line"]) == place


def test_a_call_that_does_not_fit_is_told_in_the_author_s_terms() -> None:
    host, reply = load_cells(
        "from torch import nn",
        "class Wanted(nn.Module):\n    def forword(self, x):\n        return x",
    )
    assert reply.op == "ok", reply.meta
    made = host.answer(Message(3, "construct", {"name": "Wanted", "arguments": {}}))
    sent = {"handle": made.meta["handle"], "device": "cpu", "memory": "contiguous"}
    reply = host.answer(Message(4, "evaluate", sent, (("0", torch.ones(1)),)))
    told = "there is no `forward` in `Wanted`; did you mean `forword`?"
    assert reply.op == "raised" and reply.meta["message"] == told
    assert (reply.meta["cell"], reply.meta["line"]) == (2, 2)


def test_a_module_file_has_lines_and_no_cells() -> None:
    host = WorkerRuntime()
    assert send_read(host, b"\n\nWanted = 1 / 0\n", "py").op == "ok"
    reply = send_load(host, "Wanted")
    assert (reply.meta["cell"], reply.meta["line"]) == (None, 3)


def test_classes_of_a_submission_can_be_copied_and_annotated() -> None:
    """dataclasses and copy look a class's module up in sys.modules."""
    host, reply = load_cells(
        "from __future__ import annotations\nimport copy\nfrom dataclasses import dataclass",
        "@dataclass\nclass Part:\n    n: int = 1",
        "Wanted = copy.deepcopy(Part(3))",
    )
    assert reply.op == "ok", reply.meta
    assert host.namespace["Wanted"].n == 3


# -------------------------------------------------------------------------- construct


class Sizes(nn.Module):
    def __init__(self, d_in: int, d_out: int, bias: bool = False) -> None:
        super().__init__()
        self.layer = nn.Linear(d_in, d_out, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)  # type: ignore[no-any-return]  # a module's call is untyped


class Renamed(Sizes):
    def __init__(self, width: int, out: int, with_bias: bool = False) -> None:
        super().__init__(width, out, with_bias)


class OpenEnded(Sizes):
    def __init__(self, **sizes: Any) -> None:
        super().__init__(**sizes)


def a_function(d_in: int, d_out: int, bias: bool = False) -> Sizes:
    return Sizes(d_in, d_out, bias)


def by_place_alone(d_in: int, d_out: int, /, bias: bool = False) -> Sizes:
    return Sizes(d_in, d_out, bias)


@pytest.mark.parametrize("maker", [Sizes, Renamed, OpenEnded, a_function, by_place_alone])
@pytest.mark.parametrize("optional", [{}, {"bias": True}], ids=["plain", "with a bias"])
def test_arguments_go_by_name_or_else_by_place(
    maker: Callable[..., Any], optional: Mapping[str, bool]
) -> None:
    tensors = make_module(maker, d_in=3, d_out=2, **optional).describe_tensors()
    assert tensors["layer.weight"].shape == (2, 3)
    assert ("layer.bias" in tensors) is bool(optional)


def test_a_mapping_arrives_as_a_config_object() -> None:
    def build(config: Any) -> Sizes:
        return Sizes(config.n_embd, 3 * config.n_embd)

    tensors = make_module(build, config={"n_embd": 2}).describe_tensors()
    assert tensors["layer.weight"].shape == (6, 2)


def test_a_config_that_forward_changes_is_noticed() -> None:
    class Careless(nn.Module):
        def __init__(self, config: Any) -> None:
            super().__init__()
            self.config = config

        def forward(self, x: Tensor) -> Tensor:
            self.config.n_head += 1
            return x

    careless, plain = make_module(Careless, config={"n_head": 2}), make_module(Tree)
    assert careless.forward([torch.ones(1)], CallOptions()).config_changed
    assert not plain.forward([torch.ones(1)], CallOptions()).config_changed


def test_the_seed_decides_the_weights() -> None:
    built = make_subject(Wanted=Sizes)
    arguments = {"d_in": 3, "d_out": 2}
    weights = [
        built.construct("Wanted", arguments, seed).read(["layer.weight"])["layer.weight"]
        for seed in (1, 1, 2)
    ]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_non_module_is_refused_with_a_message() -> None:
    with pytest.raises(SubmissionFailed, match="`Wanted` gives a NoneType, which is no module"):
        make_module(lambda **_: None)


def test_missing_name_is_refused_with_a_message() -> None:
    with pytest.raises(SubmissionFailed, match="`Other` is not defined"):
        make_subject(Wanted=Sizes).construct("Other", {}, None)
    with pytest.raises(SubmissionFailed, match="`Other` is not defined"):
        make_subject(wanted=a_function).get_function("Other")


# ----------------------------------------------------------------- tensors, read, write


class Tree(nn.Module):
    """Tensors in every place in which students keep them."""

    def __init__(self) -> None:
        super().__init__()
        self.own = nn.Parameter(torch.zeros(2))
        self.frozen = nn.Parameter(torch.zeros(1), requires_grad=False)
        self.plain = torch.zeros(2)
        self.register_buffer("mask", torch.zeros(3, dtype=torch.bool))
        self.register_buffer("hidden", torch.zeros(1), persistent=False)
        self.heads = nn.ModuleList([nn.Linear(1, 1) for _ in range(2)])
        self.parts = nn.ModuleDict({"a": nn.Linear(1, 1)})
        self.steps = nn.Sequential(nn.Linear(1, 1))
        self.many = nn.ParameterList([nn.Parameter(torch.zeros(1))])
        self.listed = [torch.zeros(1), nn.Linear(1, 1)]
        self.mapped = {"q": torch.zeros(1), "layer": nn.Linear(1, 1)}
        self.fixed = (torch.zeros(1), nn.Linear(1, 1))
        self.helper = SimpleNamespace(w=torch.zeros(1))
        self.tied = self.own

    def forward(self, x: Tensor) -> Tensor:
        return x


def test_registered_tensors_are_described() -> None:
    tensors = make_module(Tree).describe_tensors()
    assert tensors["own"].kind == "parameter" and tensors["own"].shape == (2,)
    assert tensors["own"].trainable and not tensors["frozen"].trainable
    assert (tensors["mask"].kind, tensors["mask"].dtype) == ("buffer", "bool")
    assert tensors["mask"].device == "cpu"
    assert {"heads.1.weight", "parts.a.bias", "steps.0.weight", "many.0", "tied"} <= set(tensors)
    assert "hidden" in tensors
    assert not any(name.startswith(("plain", "listed", "mapped", "fixed")) for name in tensors)


PATHS = [
    "own",
    "frozen",
    "plain",
    "tied",
    "heads.1.weight",
    "parts.a.weight",
    "steps.0.bias",
    "many.0",
    "listed.0",
    "listed.1.weight",
    "mapped.q",
    "mapped.layer.bias",
    "fixed.1.weight",
    "helper.w",
]


@pytest.mark.parametrize("path", PATHS)
def test_tensor_written_at_a_path_is_read_back(path: str) -> None:
    module = make_module(Tree)
    new = torch.randn_like(module.read([path])[path])
    module.write({path: new})
    assert torch.equal(module.read([path])[path], new)


@pytest.mark.parametrize("path", ["own", "plain", "listed.0"])
def test_another_shape_and_dtype_can_be_written(path: str) -> None:
    module = make_module(Tree)
    module.write({path: torch.ones(4, 5, dtype=torch.float64)})
    assert module.read([path])[path].shape == (4, 5)
    assert module.read([path])[path].dtype is torch.float64


def test_parameters_stay_parameters_and_ties_stay_tied() -> None:
    module = make_module(Tree)
    module.write({"own": torch.ones(2)})
    assert module.describe_tensors()["own"].trainable
    assert module.read(["tied"])["tied"].tolist() == [1, 1]


def test_invalid_paths_are_skipped_on_read_and_refused_on_write() -> None:
    module = make_module(Tree)
    nowhere = ["nothing", "heads.7.weight", "own.nothing", "mapped.k", "listed.9", "", "a..b"]
    assert module.read(nowhere) == {}
    for path in nowhere:
        with pytest.raises(SubmissionFailed, match="there is no"):
            module.write({path: torch.ones(1)})
    with pytest.raises(SubmissionFailed, match="`heads` is no tensor"):
        module.write({"heads": torch.ones(1)})


def test_without_paths_all_that_is_registered_is_read() -> None:
    module = make_module(Tree)
    assert list(module.read(None)) == list(module.describe_tensors())


def test_a_function_and_a_plain_object_register_nothing() -> None:
    assert make_function(lambda x: x).describe_tensors() == {}
    assert make_function(lambda x: x).read(None) == {}


# ------------------------------------------------------------------- move, copy, drop


def test_a_module_moves_to_a_dtype_and_to_the_meta_device() -> None:
    module = make_module(Sizes, d_in=3, d_out=2)
    module.move("float64", None)
    assert module.describe_tensors()["layer.weight"].dtype == "float64"
    module.move(None, "meta")
    assert module.describe_tensors()["layer.weight"].device == "meta"
    returned = module.forward([torch.ones(1, 3, dtype=torch.float64)], CallOptions())
    assert returned.devices == ("meta",)
    assert returned.outputs[0].shape == (1, 2)
    again = module.forward([torch.ones(1, 3, dtype=torch.float64)], CallOptions())
    assert not again.earlier_result_changed
    make_function(lambda x: x).move("float64", None)  # has nothing to move


@pytest.mark.parametrize("way", ["deepcopy", "state_dict"])
def test_a_copy_has_the_same_numbers_and_none_of_the_memory(way: str) -> None:
    module = make_module(Sizes, d_in=3, d_out=2)
    module.move("float64", None)
    other = module.copy(way)
    old = module.read(["layer.weight"])["layer.weight"]
    assert torch.equal(other.read(["layer.weight"])["layer.weight"], old)
    other.write({"layer.weight": torch.zeros(2, 3, dtype=torch.float64)})
    assert torch.equal(module.read(["layer.weight"])["layer.weight"], old)


def test_a_state_dict_does_not_carry_what_is_not_registered() -> None:
    module = make_module(Tree)
    module.write({"plain": torch.ones(2)})
    assert module.copy("state_dict").read(["plain"])["plain"].tolist() == [0, 0]
    assert module.copy("deepcopy").read(["plain"])["plain"].tolist() == [1, 1]


def test_a_function_is_called_on_modules_for_its_effect() -> None:
    def transfer(old: Sizes, new: Sizes) -> None:
        new.layer.weight = nn.Parameter(old.layer.weight * 2)

    both = make_subject(Wanted=Sizes, transfer=transfer)
    old, new = (both.construct("Wanted", {"d_in": 1, "d_out": 1}, s) for s in (1, 2))
    both.call("transfer", [old, new])
    name = "layer.weight"
    assert torch.equal(new.read([name])[name], 2 * old.read([name])[name])


def test_dropped_objects_are_gone_and_others_keep_their_numbers() -> None:
    host = WorkerRuntime({"wanted": lambda x: x})

    def ask(op: str, **meta: Any) -> Message:
        return host.answer(Message(1, op, meta))

    first, second = (ask("get_function", name="wanted").meta["handle"] for _ in range(2))
    assert ask("drop", handles=[first]).op == "ok"
    assert ask("describe_tensors", handle=first).op == "raised"
    assert ask("describe_tensors", handle=second).op == "ok"
    third = ask("get_function", name="wanted").meta["handle"]
    assert third != second


def test_source_of_what_is_defined_can_be_read() -> None:
    """As torch.jit.script reads it."""
    host, reply = load_cells("def wanted(x):\n    return x + 1\n", names=("wanted",))
    assert reply.op == "ok", reply.meta
    assert inspect.getsource(host.namespace["wanted"]) == "def wanted(x):\n    return x + 1\n"


def test_an_error_that_cannot_be_explained_is_told_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*given: object) -> None:
        raise TypeError("a fault of the explanation")

    monkeypatch.setattr(runtime, "explain_error", fail)
    host = WorkerRuntime()
    assert send_read(host, write_notebook("x = 1 / 0")).op == "ok"
    reply = send_load(host, "x")
    assert reply.op == "raised"
    assert reply.meta["message"] == "ZeroDivisionError: division by zero"
