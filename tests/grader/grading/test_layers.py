"""Layers around attention are judged by what holds for every layer, and by nothing else."""

import pytest

from headcheck.grader.grading.open_mode.observed_layers import ObservedLayer, observe_layer
from headcheck.grader.reading.cells import read_source
from headcheck.grader.reading.layer_code import LayerCode, list_layer_code
from headcheck.grader.reading.symbol_table import build_symbol_table
from headcheck.properties.binding.calls import set_given_aside
from headcheck.properties.binding.model_calls import call_model
from headcheck.properties.binding.search import BindingSearch
from headcheck.properties.binding.ways import MAX_STEPS
from tests.forms.bank import open_class
from tests.grader.conftest import GradeAll
from tests.properties.binding.strangers import CAUSAL, FUSED, THIRDS, make

pytestmark = pytest.mark.filterwarnings("ignore")

HEAD = """
import torch
from torch import nn
from torch.nn import functional as F
"""
OWN = make(name="Attention", init=FUSED, project=THIRDS, mask=CAUSAL)
BLOCK = """
class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attn = Attention(dim, heads)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, dim))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        {step}
"""
STACK = """
class Stack(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.layers = nn.ModuleList({made})

    def forward(self, x):
        for layer in self.layers:
            {step}
        return out
"""
OF_TORCH = """
class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attn = nn.MultiheadAttention(dim, heads{option})
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        {step}
        return self.norm(x + self.attn(x, x, x, attn_mask=hidden)[0])
"""
PRE_NORM = "return x + self.mlp(self.norm2(x))"
EACH = "[Attention(dim, heads) for _ in range(2)]"
ALL_SEE = "hidden = None"
CAUSAL = "hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).{}"


MODEL = """
class Model(nn.Module):
    def __init__(self, vocab_size, dim, heads, max_len, num_layers=2):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocab_size, dim), nn.Embedding(max_len, dim)
        self.layers = nn.ModuleList(Attention(dim, heads) for _ in range(num_layers))
        self.head = nn.Linear(dim, vocab_size)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = x + layer(x)
        return {result}
"""


ALONG_THE_BATCH = MODEL.format(result="self.head(x.mean(1))").replace(
    "self.places(torch.arange(ids.shape[1]))", "self.places(torch.arange(len(ids)))[:, None]"
)
"""a model of which the places are counted along the batch"""
MASKED = OF_TORCH.format(option=", batch_first=True", step="").replace(
    "forward(self, x)", "forward(self, x, pad)"
)
"""a layer that requires a mask of padding"""


def try_to_observe(source: str, name: str) -> ObservedLayer | None:
    subject, signature = open_class(HEAD + source, name)
    search = BindingSearch(subject, set_given_aside(signature), steps=MAX_STEPS - 300)
    list(search.iter_matches())
    called = search.probes or list(filter(None, [call_model(search)]))
    return observe_layer(subject, called, signature)


def observe(source: str, name: str) -> ObservedLayer:
    found = try_to_observe(source, name)
    assert found is not None
    return found


def describe(source: str) -> dict[str, LayerCode]:
    symbols = build_symbol_table(read_source((HEAD + source).encode(), "py"))
    return {each.name: each for each in list_layer_code(symbols)}


# ---------------------------------------------------------------------------- what calls show


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (OWN + BLOCK.format(step=PRE_NORM), "Block"),
        (OWN + BLOCK.format(step="return self.norm2(x + self.mlp(x))"), "Block"),
        (OWN + STACK.format(made=EACH, step="x = out = layer(x)"), "Stack"),
        (OWN + MODEL.format(result="self.head(x)"), "Model"),
        (OWN + MODEL.format(result="self.head(x.mean(1))"), "Model"),
        (OF_TORCH.format(option=", batch_first=True", step=ALL_SEE), "Layer"),
        (MASKED.replace("attn_mask=hidden", "key_padding_mask=pad"), "Layer"),
        (OF_TORCH.format(option=", batch_first=True", step=CAUSAL.format("triu(1)")), "Layer"),
    ],
    ids=["pre-norm", "post-norm", "stack", "model", "classifier", "of torch", "masked", "causal"],
)
def test_a_right_layer_breaks_nothing(source: str, name: str) -> None:
    layer = observe(source, name)
    assert layer.attends
    assert layer.breaches == ()
    assert layer.remarks == ()


@pytest.mark.parametrize(
    ("source", "name", "claim", "got"),
    [
        (
            OWN + STACK.format(made=EACH, step="out = layer(x)"), "Stack",
            "every_part_has_an_effect", "what `layers.0` computes does not reach the output",
        ),
        (
            OWN + STACK.format(made="[Attention(dim, heads)] * 2", step="x = out = layer(x)"),
            "Stack", "each_layer_has_its_own_weights", "`layers.0` and `layers.1` are one layer",
        ),
        (
            OWN + BLOCK.format(step="return x + self.mlp(self.norm2(x - x.mean(0)))"), "Block",
            "sequences_do_not_mix", "it changes with the others, or with its place",
        ),
        (
            OWN + ALONG_THE_BATCH, "Model",
            "sequences_do_not_mix", "it changes with the others, or with its place",
        ),
        (
            OWN + ALONG_THE_BATCH.replace("num_layers=2", "num_layers=2, num_classes=2").replace(
                "nn.Linear(dim, vocab_size)", "nn.Linear(dim, num_classes)"
            ),
            "Model", "sequences_do_not_mix", "it changes with the others, or with its place",
        ),
        (
            OWN + BLOCK.format(step="return x + self.mlp(self.norm2(x - x.mean(1, True)))"),
            "Block", "later_tokens_stay_hidden", "it changes",
        ),
        (
            OWN + BLOCK.format(step="return x + F.dropout(self.mlp(self.norm2(x)), 0.5)"),
            "Block", "calls_repeat", "they differ",
        ),
        (
            OF_TORCH.format(option=", batch_first=True", step=CAUSAL.format("tril()")), "Layer",
            "results_are_finite", "NaN or infinity, for a few ordinary tokens",
        ),
    ],
    ids=[
        "dropped", "one layer", "batch", "places along the batch", "places of two classes",
        "later tokens", "random",
        "inverted mask",
    ],
)  # fmt: skip
def test_a_wrong_layer_breaks_a_claim(source: str, name: str, claim: str, got: str) -> None:
    told = {each.claim.name: each.got for each in observe(source, name).breaches}
    assert told[claim] == got


def test_layers_that_say_that_they_share_weights_may_do_so() -> None:
    stack = STACK.format(made="[Attention(dim, heads)] * 2", step="x = out = layer(x)")
    said = stack.replace("def forward(self, x):\n", 'def forward(self, x):\n        "Shares."\n')
    assert observe(OWN + said, "Stack").breaches == ()


def test_tokens_before_the_batch_are_remarked() -> None:
    layer = observe(OF_TORCH.format(option="", step=ALL_SEE), "Layer")
    assert layer.breaches == ()
    [remark] = layer.remarks
    assert remark.startswith("it reads `(tokens, batch, width)`")


def test_writing_over_the_tokens_is_remarked() -> None:
    layer = observe(OWN + BLOCK.format(step="return x.add_(self.mlp(self.norm2(x)))")
                    .replace("x = x + self.attn", "x += self.attn"), "Block")  # fmt: skip
    assert "its calls write over the tokens that they are given" in layer.remarks


def test_what_uses_no_attention_is_no_layer_around_it() -> None:
    plain = BLOCK.format(step=PRE_NORM).replace("Attention(dim, heads)", "nn.Linear(dim, dim)")
    assert try_to_observe(plain, "Block") is None


# ----------------------------------------------------------------------------- what code says


def test_code_tells_what_is_never_read() -> None:
    block = BLOCK.format(step="return x + self.mlp(self.norm1(x))")
    found = describe(OWN + block.replace("def forward(self, x)", "def forward(self, x, mask)"))
    made, read = dict(found["Block"].made), found["Block"].read
    assert read is not None and [name for name in made if name not in read] == ["norm2"]
    assert [name for name, _ in found["Block"].idle] == ["mask"]
    assert found["Block"].uses == ("Attention",)


@pytest.mark.parametrize("use", ["getattr(self, 'norm2')", "list(self.children())[2]"])
def test_what_may_be_read_by_another_name_is_not_unread(use: str) -> None:
    found = describe(OWN + BLOCK.format(step=f"return x + self.mlp({use}(x))"))
    assert found["Block"].read is None


# ------------------------------------------------------------------------------ whole records


def test_a_layer_has_a_record_beside_its_attention(grade_all: GradeAll) -> None:
    source = HEAD + OWN + BLOCK.format(step="return x + self.mlp(x)")
    attention, block = grade_all(source)
    assert (attention.status, block.name) == ("passed", "Block")
    assert (block.status, block.max_score) == ("failed", 10)
    assert "nothing reads `norm2`" in block.properties[0].message
    assert block.place is not None
    [told] = block.place.lines
    assert "self.norm1, self.norm2 =" in source.splitlines()[told.line - 1]
    assert block.notes[0].message == (
        "judged as a layer around `Attention`, by what holds for every layer"
    )


def test_a_layer_around_wrong_attention_is_not_judged(grade_all: GradeAll) -> None:
    wrong = OWN.replace("q.shape[-1] ** 0.5", "q.shape[-1]")
    [record] = grade_all(HEAD + wrong + BLOCK.format(step="return x + self.mlp(x)"))
    assert record.name == "Attention"


UNKNOWN = """
class Bent(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))
        for name in ("one", "other"):
            self.register_parameter(name, nn.Parameter(torch.ones(1)))

    def forward(self, x):
        scores = self.q(x).tanh() @ self.k(x).tanh().mT * self.one.sin() * self.OTHER.cos()
        return scores.softmax(-1) @ self.v(x).tanh()
"""


@pytest.mark.parametrize(("named", "status"), [("other", "not_tried"), ("one", "failed")])
def test_attention_that_is_not_recognised_fails_if_it_breaks_what_holds_for_every_layer(
    grade_all: GradeAll, named: str, status: str
) -> None:
    [record] = grade_all(HEAD + UNKNOWN.replace("OTHER", named))
    assert record.status == status
    if status == "failed":
        assert "nothing reads `other`" in record.properties[0].message
        assert "its attention is not recognised" in record.notes[0].message


@pytest.mark.parametrize("sizes", [pytest.param("_", marks=pytest.mark.whole), "b, t, d = x.shape"])
def test_a_layer_that_says_which_axis_is_the_batch_is_judged_by_that(
    grade_all: GradeAll, sizes: str
) -> None:
    source = OF_TORCH.format(option="", step=ALL_SEE)
    source = source.replace("        hidden", f"        {sizes}\n        hidden")
    [record] = grade_all(HEAD + source.replace("        _\n", ""))
    assert record.status == ("passed" if sizes == "_" else "failed")
    if sizes != "_":
        assert sizes in str(record.properties)


@pytest.mark.whole
def test_what_projects_around_a_function_is_attention_and_no_layer(grade_all: GradeAll) -> None:
    core = """
class Core(nn.Module):
    def forward(self, q, k, v):
        return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v
"""
    wrong = make(
        name="Attention",
        init=FUSED + "\nself.core = Core()",
        project=THIRDS,
        scores="y = self.core(q, k, v.flip(1))",
        softmax="",
        out="o = self.out(y.transpose(1, 2).flatten(2).sin())",
    )
    records = {record.name: record for record in grade_all(HEAD + core + wrong)}
    assert records["Core"].status == "passed"
    assert records["Attention"].status == "failed"
    assert records["Attention"].max_score > 10, "it is judged as attention"


def test_an_attribute_that_is_read_in_place_of_another_is_told(grade_all: GradeAll) -> None:
    block = BLOCK.format(step="return x + self.mlp(self.norm1(x))")
    place = grade_all(HEAD + OWN + block)[1].place
    lines = (HEAD + OWN + block).splitlines()
    assert place is not None
    told = [lines[each.line - 1] for each in place.lines]
    assert ["norm2" in told[0], *("self.norm1(x)" in each for each in told[1:])] == [True] * 3


def test_what_is_read_in_place_of_a_dropped_result_is_told() -> None:
    source = OWN + BLOCK.format(step="n = self.norm2(x)\n        return x + self.mlp(x)")
    [breach] = observe(source, "Block").breaches
    lines = (HEAD + source).splitlines()
    told = [lines[line - 1].strip() for _, line in breach.lines]
    assert told == ["n = self.norm2(x)", "return x + self.mlp(x)"]
