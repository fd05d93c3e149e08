"""The host, without a process: what each request does, and what an author is told of an error."""

import random
import sys
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from grader.sandbox.wire import Message, named, positional
from grader.sandbox.worker.host import Host
from grader.subject import ChannelModule, ChannelSubject, InProcess
from properties.subject import How
from properties.violation import Status, SubmissionFailed


@pytest.fixture(autouse=True)
def no_module_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "submission", SimpleNamespace())


def subject(**namespace: Any) -> ChannelSubject:
    return ChannelSubject(InProcess(Host({"__name__": "submission", **namespace})))


def made(maker: Callable[..., Any], /, **arguments: Any) -> ChannelModule:
    module = subject(Wanted=maker).construct("Wanted", arguments, None)
    assert isinstance(module, ChannelModule)
    return module


def function(called: Callable[..., Any]) -> ChannelModule:
    found = subject(wanted=called).function("wanted")
    assert isinstance(found, ChannelModule)
    return found


def source(*cells: str) -> bytes:
    v4 = nbformat.v4
    written = v4.new_notebook(cells=[v4.new_code_cell(cell) for cell in cells])
    return str(nbformat.writes(written)).encode()


def read(host: Host, data: bytes, kind: str = "ipynb") -> Message:
    sent = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    return host.answer(Message(1, "read", {"kind": kind}, (("source", sent),)))


def loaded(*cells: str, names: tuple[str, ...] = ("Wanted",)) -> tuple[Host, Message]:
    host = Host()
    assert read(host, source(*cells)).op == "ok"
    return host, host.answer(Message(2, "load", {"names": names}))


# ------------------------------------------------------------------------ read and load


def test_reading_runs_nothing_and_says_what_is_defined() -> None:
    reply = read(Host(), source("raise SystemExit", "class Wanted:\n    pass", "def broken(:"))
    assert reply.op == "ok"
    found = reply.meta["outline"]
    assert [d["name"] for d in found["definitions"]] == ["Wanted"]
    assert [(b["cell"], b["line"]) for b in found["broken"]] == [(3, 1)]


def test_what_cannot_be_read_becomes_a_reply() -> None:
    reply = read(Host(), b"no notebook")
    assert reply.op == "raised"
    assert reply.meta["message"].startswith("The file is not a notebook (not JSON)")


def test_loading_runs_what_is_needed_and_nothing_else() -> None:
    host, reply = loaded("n = 2", "class Wanted:\n    size = n", "while True: pass")
    assert reply.op == "ok", reply.meta
    assert host.namespace["Wanted"].size == 2


def test_statements_on_one_line_are_all_run() -> None:
    host, reply = loaded("import math; import torch; n = 3", "class Wanted:\n    r = math.sqrt(n)")
    assert reply.op == "ok", reply.meta
    assert host.namespace["Wanted"].r == 3**0.5


def test_several_names_are_loaded_together_each_statement_once() -> None:
    host, reply = loaded(
        "log = []",
        "def note(n):\n    log.append(n)\n    return n",
        "a = note(1)",
        "b = note(2) + a",
        names=("b", "a"),
    )
    assert reply.op == "ok", reply.meta
    assert host.namespace["b"] == 3
    assert host.namespace["log"] == [1, 2]


def test_loading_says_what_reading_the_code_found() -> None:
    _, reply = loaded("n = 2", "class Wanted(B):\n    def forward(self, x):\n        return x * n")
    assert reply.op == "raised"  # there is no B
    _, reply = loaded("n = 2", "class Wanted:\n    def forward(self, x):\n        return x * n")
    assert [r["kind"] for r in reply.meta["remarks"]] == ["notebook_variable"]


def test_a_definition_that_survives_an_earlier_error_is_loaded() -> None:
    host, reply = loaded("import nowhere_at_all", "class Wanted:\n    size = 1")
    assert reply.op == "ok"
    assert host.namespace["Wanted"].size == 1


@pytest.mark.parametrize(
    ("cells", "message", "place"),
    [
        (["", "import nowhere_at_all\nclass Wanted(nowhere_at_all.A): pass"], "nowhere", (2, 1)),
        (["n = 1\nm = n / 0", "class Wanted:\n    size = m"], "ZeroDivisionError: div", (1, 2)),
        (["def f():\n    raise SystemExit(3)", "Wanted = f()"], "SystemExit: 3", (1, 2)),
        (["x = 1", "pass"], "`Wanted` is not defined", (None, None)),
        (["class Wanted:\n    assert False"], "AssertionError", (1, 2)),
    ],
    ids=["import", "chain", "exit", "nothing", "no message"],
)
def test_what_goes_wrong_while_loading_is_told_with_its_place(
    cells: list[str], message: str, place: tuple[int | None, int | None]
) -> None:
    _, reply = loaded(*cells)
    assert reply.op == "raised"
    assert message in reply.meta["message"]
    assert (reply.meta["cell"], reply.meta["line"]) == place


def test_a_module_file_has_lines_and_no_cells() -> None:
    host = Host()
    assert read(host, b"\n\nWanted = 1 / 0\n", "py").op == "ok"
    reply = host.answer(Message(2, "load", {"names": ("Wanted",)}))
    assert (reply.meta["cell"], reply.meta["line"]) == (None, 3)


def test_classes_of_a_submission_can_be_copied_and_annotated() -> None:
    """dataclasses and copy look a class's module up in sys.modules."""
    host, reply = loaded(
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


@pytest.mark.parametrize("maker", [Sizes, Renamed, OpenEnded, a_function])
@pytest.mark.parametrize("optional", [{}, {"bias": True}], ids=["plain", "with a bias"])
def test_arguments_go_by_name_or_else_by_place(
    maker: Callable[..., Any], optional: Mapping[str, bool]
) -> None:
    tensors = made(maker, d_in=3, d_out=2, **optional).tensors()
    assert tensors["layer.weight"].shape == (2, 3)
    assert ("layer.bias" in tensors) is bool(optional)


def test_a_mapping_arrives_as_a_config_object() -> None:
    def build(config: Any) -> Sizes:
        return Sizes(config.n_embd, 3 * config.n_embd)

    assert made(build, config={"n_embd": 2}).tensors()["layer.weight"].shape == (6, 2)


def test_a_config_that_forward_changes_is_noticed() -> None:
    class Careless(nn.Module):
        def __init__(self, config: Any) -> None:
            super().__init__()
            self.config = config

        def forward(self, x: Tensor) -> Tensor:
            self.config.n_head += 1
            return x

    module = made(Careless, config={"n_head": 2})
    assert module.forward([torch.ones(1)], How()).config_changed
    assert not made(Sizes, d_in=1, d_out=1).forward([torch.ones(1)], How()).config_changed


def test_the_seed_decides_the_weights() -> None:
    built = subject(Wanted=Sizes)
    arguments = {"d_in": 3, "d_out": 2}
    weights = [
        built.construct("Wanted", arguments, seed).read(["layer.weight"])["layer.weight"]
        for seed in (1, 1, 2)
    ]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_what_is_no_module_is_refused_in_words() -> None:
    with pytest.raises(SubmissionFailed, match="`Wanted` gives a NoneType, which is no module"):
        made(lambda **_: None)


def test_a_name_that_is_not_there_is_refused_in_words() -> None:
    for ask in (lambda s: s.construct("Other", {}, None), lambda s: s.function("Other")):
        with pytest.raises(SubmissionFailed, match="`Other` is not defined"):
            ask(subject(Wanted=Sizes))


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


def test_what_is_registered_is_described() -> None:
    tensors = made(Tree).tensors()
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
def test_what_is_written_at_a_path_is_read_there(path: str) -> None:
    module = made(Tree)
    new = torch.randn_like(module.read([path])[path])
    module.write({path: new})
    assert torch.equal(module.read([path])[path], new)


@pytest.mark.parametrize("path", ["own", "plain", "listed.0"])
def test_another_shape_and_dtype_can_be_written(path: str) -> None:
    module = made(Tree)
    module.write({path: torch.ones(4, 5, dtype=torch.float64)})
    assert module.read([path])[path].shape == (4, 5)
    assert module.read([path])[path].dtype is torch.float64


def test_parameters_stay_parameters_and_ties_stay_tied() -> None:
    module = made(Tree)
    module.write({"own": torch.ones(2)})
    assert module.tensors()["own"].trainable
    assert module.read(["tied"])["tied"].tolist() == [1, 1]


def test_paths_that_lead_nowhere_are_left_out_when_read_and_refused_when_written() -> None:
    module = made(Tree)
    nowhere = ["nothing", "heads.7.weight", "own.nothing", "mapped.k", "listed.9", "", "a..b"]
    assert module.read(nowhere) == {}
    for path in nowhere:
        with pytest.raises(SubmissionFailed, match="there is no"):
            module.write({path: torch.ones(1)})
    with pytest.raises(SubmissionFailed, match="`heads` is no tensor"):
        module.write({"heads": torch.ones(1)})


def test_a_function_and_a_plain_object_register_nothing() -> None:
    assert function(lambda x: x).tensors() == {}


# ---------------------------------------------------------------------------- forward


def test_outputs_inputs_and_their_description_come_back() -> None:
    def call(x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        return x * mask, mask

    given = torch.ones(2, dtype=torch.float64), torch.tensor([True, False])
    returned = function(call).forward(list(given), How())
    assert [o.tolist() for o in returned.outputs] == [[1, 0], [True, False]]
    assert returned.dtypes == ("float64", "bool")
    assert returned.devices == ("cpu", "cpu")
    assert [t.tolist() for t in returned.inputs_after] == [[1, 1], [True, False]]
    assert returned.form == "a tuple of 2 (Tensor, Tensor)"


@pytest.mark.parametrize(
    ("result", "form"),
    [
        (None, "None (is there a return?)"),
        (1.5, "one float"),
        ([[1.0]], "a list of 1 (list)"),
        ((torch.ones(1), 3), "a tuple of 2 (Tensor, int)"),
        ({"output": torch.ones(1)}, "one dict"),
        ((), "a tuple of 0 ()"),
    ],
)
def test_what_is_no_tensor_is_described(result: object, form: str) -> None:
    returned = function(lambda x: result).forward([torch.ones(1)], How())
    assert returned.outputs == ()
    assert returned.form == form


@pytest.mark.parametrize(
    "result",
    [
        torch.ones(2, 3).T,
        torch.ones(1).expand(4),
        torch.ones(2, requires_grad=True) * 2,
        nn.Parameter(torch.ones(2)),
        torch.eye(2).to_sparse(),
        torch.ones(2, dtype=torch.complex64).conj().imag,
        torch.tensor(1.0),
        torch.empty(0, 3),
    ],
    ids=["transposed", "expanded", "graph", "parameter", "sparse", "negated lazily", "0-d", "empty"],
)
def test_outputs_of_every_layout_arrive_as_numbers(result: Tensor) -> None:
    [output] = function(lambda x: result).forward([torch.ones(1)], How()).outputs
    assert torch.equal(output, result.detach().to_dense())
    assert type(output) is Tensor


def test_an_input_that_is_changed_is_seen_and_ours_stays() -> None:
    x = torch.ones(2)
    returned = function(lambda x: x.mul_(3)).forward([x], How())
    assert returned.inputs_after[0].tolist() == [3, 3]
    assert x.tolist() == [1, 1]


@pytest.mark.parametrize("memory", ["contiguous", "transposed", "expanded"])
def test_the_memory_layout_changes_no_number(memory: str) -> None:
    seen: list[Tensor] = []
    x = torch.arange(24.0).reshape(2, 3, 4)
    if memory == "expanded":
        x = x[:1].expand_as(x)
    function(lambda x: seen.append(x) or x).forward([x], How(memory=memory))
    assert torch.equal(seen[0], x)
    assert seen[0].is_contiguous() is (memory == "contiguous")
    assert (seen[0].stride()[0] == 0) is (memory == "expanded")


def test_training_and_evaluation_are_set_before_the_call() -> None:
    module = made(lambda: nn.Dropout(0.5))
    x = torch.ones(64)
    assert torch.equal(module.forward([x], How()).outputs[0], x)
    returned = module.forward([x], How(training=True, seed=1))
    assert not torch.equal(returned.outputs[0], x)
    assert returned.training_after
    assert torch.equal(module.forward([x], How()).outputs[0], x)


def test_who_switches_the_training_flag_is_seen() -> None:
    class Switch(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            self.train(not self.training)
            return x

    assert made(Switch).forward([torch.ones(1)], How()).training_after


@pytest.mark.parametrize(
    ("grad", "recorded", "inference"),
    [("no_grad", False, False), ("grad", True, False), ("inference", False, True)],
)
def test_gradients_are_recorded_when_asked_for(grad: str, recorded: bool, inference: bool) -> None:
    def call(x: Tensor) -> Tensor:
        return torch.tensor([torch.is_grad_enabled(), torch.is_inference_mode_enabled()])

    [output] = function(call).forward([torch.ones(1)], How(grad=grad)).outputs
    assert output.tolist() == [recorded, inference]


def test_prints_are_counted_and_go_nowhere(capfd: pytest.CaptureFixture[str]) -> None:
    def call(x: Tensor) -> Tensor:
        print("hello")
        print("error", file=sys.stderr)
        sys.stdout.flush()
        return x

    assert function(call).forward([torch.ones(1)], How()).printed == len("hello\n")
    assert function(lambda x: x).forward([torch.ones(1)], How()).printed == 0
    assert capfd.readouterr() == ("", "")


def test_attention_functions_of_torch_are_watched_when_asked() -> None:
    def call(x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(x, x, x)

    x = torch.ones(1, 2, 3)
    assert function(call).forward([x], How()).called == ()
    called = function(call).forward([x], How(watched=True)).called
    assert called == ("scaled_dot_product_attention",)
    assert function(lambda x: x.softmax(-1)).forward([x], How(watched=True)).called == ()


def test_a_result_that_a_later_call_overwrites_is_seen() -> None:
    kept = torch.zeros(2)

    def call(x: Tensor) -> Tensor:
        return kept.copy_(x)

    module = function(call)
    first = module.forward([torch.ones(2)], How())
    assert not first.earlier_result_changed
    assert not module.forward([torch.ones(2)], How()).earlier_result_changed
    assert module.forward([torch.zeros(2)], How()).earlier_result_changed
    assert first.outputs[0].tolist() == [1, 1]


def test_a_result_with_nan_is_not_taken_for_changed() -> None:
    module = function(lambda x: x / 0 * 0)
    assert not any(
        module.forward([torch.ones(2)], How()).earlier_result_changed for _ in range(3)
    )


# -------------------------------------------------------------------- random numbers


@pytest.fixture
def states() -> Iterator[None]:
    """The random numbers of this process, which every request must leave alone."""
    before = torch.get_rng_state(), random.getstate()
    yield
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == random.getstate()


@pytest.mark.usefixtures("states")
@pytest.mark.parametrize(
    "draw",
    [lambda: torch.rand(1), random.random, lambda: torch.manual_seed(3), lambda: random.seed(3)],
    ids=["torch", "python", "reseeds torch", "reseeds python"],
)
def test_who_moves_the_random_numbers_is_seen(draw: Callable[[], object]) -> None:
    module = function(lambda x: draw() and x if draw() is not None else x)
    assert all(module.forward([torch.ones(1)], How()).random_state_moved for _ in range(3))
    assert not function(lambda x: x).forward([torch.ones(1)], How()).random_state_moved


@pytest.mark.usefixtures("states")
def test_a_seed_repeats_the_random_numbers_and_moving_them_is_then_expected() -> None:
    module = function(lambda x: x + torch.rand(1) + random.random())
    first, again, other = (module.forward([torch.ones(1)], How(seed=s)) for s in (5, 5, 6))
    assert torch.equal(first.outputs[0], again.outputs[0])
    assert not torch.equal(first.outputs[0], other.outputs[0])
    assert not first.random_state_moved


@pytest.mark.usefixtures("states")
def test_no_request_touches_the_random_numbers_of_this_process() -> None:
    module = made(Sizes, d_in=2, d_out=2)
    module.copy("state_dict")
    module.vjp([torch.ones(1, 2)], torch.ones(1, 2), ["layer.weight"], None)
    loaded("import random, torch", "random.seed(1)\nWanted = torch.rand(2)")


# -------------------------------------------------------------------------------- vjp


class Product(nn.Module):
    """x @ w, where w may be registered or not."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        w = torch.tensor([[2.0], [3.0]])
        self.w = nn.Parameter(w, requires_grad=kind != "frozen") if kind != "plain" else w
        self.unused = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.w


@pytest.mark.parametrize("kind", ["parameter", "frozen", "plain"])
def test_gradients_of_inputs_and_of_tensors_registered_or_not(kind: str) -> None:
    module = made(Product, kind=kind)
    x, cotangent = torch.tensor([[1.0, 5.0]]), torch.tensor([[10.0]])
    found = module.vjp([x], cotangent, ["w", "unused", "nowhere"], None)
    assert [g.tolist() for g in found.inputs if g is not None] == [[[20.0, 30.0]]]
    assert found.parameters["w"] is not None
    assert found.parameters["w"].tolist() == [[10.0], [50.0]]
    assert found.parameters["unused"] is None and found.parameters["nowhere"] is None


def test_asking_for_gradients_leaves_tensors_as_they_were() -> None:
    module = made(Product, kind="frozen")
    module.vjp([torch.ones(1, 2)], torch.ones(1, 1), ["w"], None)
    assert not module.tensors()["w"].trainable


def test_a_detached_output_has_no_gradients() -> None:
    found = function(lambda x: x.detach() * 2).vjp([torch.ones(2)], torch.ones(2), [], None)
    assert found.inputs == (None,)


def test_the_first_of_several_outputs_is_differentiated_and_the_mask_is_passed() -> None:
    def call(x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        return x * mask, x

    mask = torch.tensor([1, 0])
    found = function(call).vjp([torch.ones(2)], torch.ones(2), [], mask)
    assert found.inputs[0] is not None
    assert found.inputs[0].tolist() == [1, 0]


# ------------------------------------------------------------------- move, copy, drop


def test_a_module_moves_to_a_dtype_and_to_the_meta_device() -> None:
    module = made(Sizes, d_in=3, d_out=2)
    module.move("float64", None)
    assert module.tensors()["layer.weight"].dtype == "float64"
    module.move(None, "meta")
    assert module.tensors()["layer.weight"].device == "meta"
    returned = module.forward([torch.ones(1, 3, dtype=torch.float64)], How())
    assert returned.devices == ("meta",)
    assert returned.outputs[0].shape == (1, 2)
    assert not module.forward(
        [torch.ones(1, 3, dtype=torch.float64)], How()
    ).earlier_result_changed
    function(lambda x: x).move("float64", None)  # has nothing to move


@pytest.mark.parametrize("way", ["deepcopy", "state_dict"])
def test_a_copy_has_the_same_numbers_and_none_of_the_memory(way: str) -> None:
    module = made(Sizes, d_in=3, d_out=2)
    module.move("float64", None)
    other = module.copy(way)
    old = module.read(["layer.weight"])["layer.weight"]
    assert torch.equal(other.read(["layer.weight"])["layer.weight"], old)
    other.write({"layer.weight": torch.zeros(2, 3, dtype=torch.float64)})
    assert torch.equal(module.read(["layer.weight"])["layer.weight"], old)


def test_a_state_dict_does_not_carry_what_is_not_registered() -> None:
    module = made(Product, kind="plain")
    module.write({"w": torch.zeros(2, 1)})
    assert module.copy("state_dict").read(["w"])["w"].tolist() == [[2.0], [3.0]]
    assert module.copy("deepcopy").read(["w"])["w"].tolist() == [[0.0], [0.0]]


def test_a_function_is_called_on_modules_for_its_effect() -> None:
    def transfer(old: Sizes, new: Sizes) -> None:
        new.layer.weight = nn.Parameter(old.layer.weight * 2)

    both = subject(Wanted=Sizes, transfer=transfer)
    old, new = (both.construct("Wanted", {"d_in": 1, "d_out": 1}, s) for s in (1, 2))
    both.call("transfer", [old, new])
    name = "layer.weight"
    assert torch.equal(new.read([name])[name], 2 * old.read([name])[name])


def test_dropped_objects_are_gone_and_others_keep_their_numbers() -> None:
    host = Host({"wanted": lambda x: x, "other": lambda x: 2 * x})
    handles = [host.answer(Message(i, "function", {"name": n})).meta["handle"] for i, n in
               enumerate(("wanted", "other"))]
    assert host.answer(Message(3, "drop", {"handles": handles[:1]})).op == "ok"
    again = host.answer(Message(4, "function", {"name": "wanted"})).meta["handle"]
    assert again != handles[1]
    assert host.answer(Message(5, "tensors", {"handle": handles[0] if again != handles[0] else 99})).op == "raised"
    assert host.answer(Message(6, "tensors", {"handle": handles[1]})).op == "ok"


# ------------------------------------------------------------------------------ errors


def test_an_error_is_told_in_one_line_with_the_authors_own_place() -> None:
    host, reply = loaded(
        "def helper(x):\n    y = x\n    return y @ y",
        "def Wanted(x):\n    return helper(x)",
    )
    assert reply.op == "ok"
    handle = host.answer(Message(1, "function", {"name": "Wanted"})).meta["handle"]
    how = {"device": "cpu", "memory": "contiguous", "training": False, "seed": None}
    meta = {"handle": handle, **how, "grad": "grad", "watched": False}
    reply = host.answer(Message(2, "forward", meta, positional([torch.ones(2, 3)])))
    assert reply.op == "raised"
    assert reply.meta["type"] == "RuntimeError"
    assert "\n" not in reply.meta["message"]
    assert (reply.meta["cell"], reply.meta["line"]) == (1, 3)


class Unprintable(Exception):
    def __str__(self) -> str:
        return 5 * "long story\n" + 5000 * "!"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("no\n\n  way"), "ValueError: no way"),
        (AssertionError(), "AssertionError"),
        (SystemExit(0), "SystemExit: 0"),
        (GeneratorExit(), "GeneratorExit"),
        (StopIteration(), "StopIteration"),
        (RecursionError("deep"), "RecursionError: deep"),
        (UnicodeError("half a pair \ud800"), "UnicodeError: half a pair"),
    ],
    ids=repr,
)
def test_whatever_is_raised_becomes_a_reply(error: BaseException, message: str) -> None:
    def call(x: Tensor) -> Tensor:
        raise error

    with pytest.raises(SubmissionFailed) as caught:
        function(call).forward([torch.ones(1)], How())
    assert caught.value.status is Status.CRASHED
    assert caught.value.message.startswith(message)
    caught.value.message.encode()


def test_a_long_message_is_cut() -> None:
    def call(x: Tensor) -> Tensor:
        raise Unprintable

    with pytest.raises(SubmissionFailed) as caught:
        function(call).forward([torch.ones(1)], How())
    assert len(caught.value.message) <= 400


@pytest.mark.parametrize(
    "error",
    [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried …")],
    ids=["python", "torch"],
)
def test_too_much_memory_has_a_status_of_its_own(error: Exception) -> None:
    def call(x: Tensor) -> Tensor:
        raise error

    with pytest.raises(SubmissionFailed) as caught:
        function(call).forward([torch.ones(1)], How())
    assert caught.value.status is Status.OUT_OF_MEMORY


def test_a_host_outlives_the_errors_of_its_submission() -> None:
    calls: list[int] = []

    def call(x: Tensor) -> Tensor:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError
        return x

    module = function(call)
    with pytest.raises(SubmissionFailed):
        module.forward([torch.ones(1)], How())
    assert module.forward([torch.ones(1)], How()).outputs[0].tolist() == [1]


def test_the_host_knows_no_other_requests() -> None:
    assert Host().answer(Message(1, "exec", {}, named({}))).op == "raised"
