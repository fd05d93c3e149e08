"""Heads and contexts may have widths of their own, beside that of the tokens."""

import pytest

from tests.grader.conftest import GradeText
from tests.properties.binding.strangers import PROJECT, make

LATENT_DIFFUSION = make(
    name="CrossAttention",
    takes="query_dim, context_dim, heads=8, dim_head=64",
    init="inner = heads * dim_head\n"
    "self.q, self.out = nn.Linear(query_dim, inner, bias=False), nn.Linear(inner, query_dim)\n"
    "self.k, self.v = (nn.Linear(context_dim, inner, bias=False) for _ in range(2))",
    call="x, context",
    inputs="x, context, context",
)
FUSED = make(
    name="Reader",
    takes="d_model, heads, d_encoder",
    init="self.norm, self.kv = nn.LayerNorm(d_model), nn.Linear(d_encoder, 2 * d_model)\n"
    "self.q, self.out = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)",
    call="x, encoded",
    project="b, n, d = x.shape\n"
    "k, v = self.kv(encoded).view(b, -1, 2, self.heads, d // self.heads).unbind(2)\n"
    "q = self.q(self.norm(x)).view(b, n, self.heads, -1)",
    scores="s = torch.einsum('bnhd,bmhd->bhnm', q, k) / (d // self.heads) ** 0.5",
    out="o = self.out(torch.einsum('bhnm,bmhd->bnhd', w, v).reshape(b, n, d))",
    result="x + o",
)
NAMES = {"query_dim": "dim_q", "context_dim": "dim_kv", "dim_head": "head_dim"}


def rename(source: str) -> str:
    for before, after in NAMES.items():
        source = source.replace(before, after)
    return source


RIGHT = [LATENT_DIFFUSION, rename(LATENT_DIFFUSION), FUSED]


@pytest.mark.sampled("source", RIGHT, RIGHT[::2])
def test_a_context_of_another_width_is_recognised(grade_text: GradeText, source: str) -> None:
    record = grade_text(source)
    assert record.status == "passed", [p.name for p in record.properties if p.status != "passed"]
    assert any("a context of its own width" in note.message for note in record.notes)


WRONG = [
    (LATENT_DIFFUSION, "w @ v", "w @ v.flip(2)"),
    (LATENT_DIFFUSION, "q.shape[-1] ** 0.5", "context.shape[-1] ** 0.5"),
    (FUSED, ".softmax(-1)", ".softmax(-2)"),
]


@pytest.mark.sampled(("source", "right", "wrong"), WRONG, WRONG[1:2])
def test_its_mistakes_fail(grade_text: GradeText, source: str, right: str, wrong: str) -> None:
    record = grade_text(source.replace(right, wrong))
    values = {p.name for p in record.properties if p.status == "failed"}
    assert record.status == "failed" and len(values) > 1


HEADS_OF_ANY_WIDTH = make(
    name="Attention",
    takes="n_head, d_model, d_k, dropout=0.1",
    init="self.dropout, self.heads, self.scale = nn.Dropout(dropout), n_head, d_k**-0.5\n"
    "self.q, self.k, self.v = (nn.Linear(d_model, n_head * d_k, bias=False) for _ in range(3))\n"
    "self.out = nn.Linear(n_head * d_k, d_model)",
    scores="s = q @ k.mT * self.scale",
    weights="w = self.dropout(w)",
)
OF_THE_MODEL = "(d_model // n_head) ** -0.5"


def test_heads_are_judged_where_their_width_is_not_a_share_of_the_model(
    grade_text: GradeText,
) -> None:
    right = grade_text(HEADS_OF_ANY_WIDTH)
    assert right.status == "passed"
    assert "`d_model`, the width of a token" in str(right.notes)
    wrong = grade_text(HEADS_OF_ANY_WIDTH.replace("d_k**-0.5", OF_THE_MODEL))
    assert wrong.status == "failed"
    square = HEADS_OF_ANY_WIDTH.replace(
        "nn.Linear(n_head * d_k, d_model)", "nn.Linear(d_model, d_model)"
    )
    assert "the width of all heads together" in str(grade_text(square).notes)


def test_heads_of_any_width_may_stand_in_a_residual(grade_text: GradeText) -> None:
    around = HEADS_OF_ANY_WIDTH.replace(
        "self.out =", "self.norm = nn.LayerNorm(d_model)\n        self.out ="
    )
    around = around.replace("return o", "return x + o").replace("(x, x, x)", "[self.norm(x)] * 3")
    assert grade_text(around).status == "passed"
    wrong = around.replace("d_k**-0.5", OF_THE_MODEL)
    assert grade_text(wrong).status == "failed"


def test_latents_may_read_tokens_of_another_width(grade_text: GradeText) -> None:
    """As in Perceiver, where `latent_dim` is no width of keys and values."""
    source = LATENT_DIFFUSION.replace("query_dim", "latent_dim").replace("context_dim", "input_dim")
    record = grade_text(source)
    assert record.status == "passed"
    assert "`input_dim`, the width of the tokens that are attended to" in str(record.notes)


OF_PIXELS = make(
    name="TextAttention",
    takes="channels, text_dim, heads=4, dim_head=8, num_groups=4",
    init="inner, self.norm = heads * dim_head, nn.GroupNorm(num_groups, channels)\n"
    "self.q, self.out = nn.Linear(channels, inner, bias=False), nn.Linear(inner, channels)\n"
    "self.k, self.v = (nn.Linear(text_dim, inner, bias=False) for _ in range(2))",
    call="x, text",
    project="b, c, height, width = x.shape\n"
    "inputs = self.norm(x).flatten(2).transpose(1, 2), text, text\n" + PROJECT,
    result="x + o.transpose(1, 2).reshape(x.shape)",
)


def test_pixels_may_attend_to_a_context_and_groups_are_those_of_a_norm(
    grade_text: GradeText,
) -> None:
    record = grade_text(OF_PIXELS)
    assert record.status == "passed" and record.max_score > 100
    told = [note.message for note in record.notes]
    assert "its inputs have the shape (batch, channels, rows, columns)" in told
    assert "judged without its `norm`, which every call leaves out" in told


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("softmax(-1)", "softmax(-2)"),
        pytest.param("q.shape[-1] ** 0.5", "q.shape[-1]", marks=pytest.mark.whole),
    ],
)
def test_wrong_attention_of_pixels_to_a_context_fails(
    old: str, new: str, grade_text: GradeText
) -> None:
    record = grade_text(OF_PIXELS.replace(old, new))
    assert record.status == "failed" and record.max_score > 100
