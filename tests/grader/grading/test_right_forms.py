"""Right code in forms that were accused, or not recognised, once; each with a mistake."""

import pytest

from headcheck.exercises import BY_SLUG
from tests.grader.conftest import GradeAll, GradeText
from tests.properties.binding.strangers import CAUSAL, PROJECT, SCORES, SEPARATE, THIRDS, make
from tests.properties.binding.today import NORMS

BATCHED = BY_SLUG["self_attention_v2"].solution.replace("keys.T", "keys.transpose(1, 2)")
CONFIG = """
from dataclasses import field


@dataclass
class AttnConfig:
    width: int = 64
    heads: int = 4
    attn_softcap: float = 30.0
    eps: float = 1e-6
    scale: float = field(init=False)

    def __post_init__(self):
        self.scale = 1.0 / math.sqrt(self.width // self.heads)
"""
CAPPED = make(
    name="CappedAttention",
    takes="cfg: AttnConfig, layer: int",
    init="dim, self.heads, self.cfg = cfg.width, cfg.heads, cfg\n"
    "self.pre_norm, self.post_norm = (RMSNorm(dim, eps=cfg.eps) for _ in range(2))\n" + SEPARATE,
    inputs="*[self.pre_norm(x)] * 3,",
    scores="c = self.cfg\ns = q @ k.mT * c.scale",
    mask="s = c.attn_softcap * torch.tanh(s / c.attn_softcap)",
    result="x + self.post_norm(o)",
    before=CONFIG + NORMS["rms_plus_one"],
)
FEATURES = """\
import torch
import torch.nn.functional as F


def linear_attention(q, k, v):
    Q, K = F.elu(q) + 1, F.elu(k) + 1
    sums = torch.einsum("nlhd,nhd->nlh", Q, K.sum(dim=1)) + 1e-6
    return torch.einsum("nlhd,nhmd,nlh->nlhm", Q, torch.einsum("nshd,nshm->nhmd", K, v), 1 / sums)
"""
BIASED = make(
    name="DecoderAttention", call="x, position_bias", scores="s = q @ k.mT + position_bias"
)
GATED = make(
    name="GatedAttention",
    init="self.q, self.k = nn.Linear(dim, 2 * dim, False), nn.Linear(dim, dim)\n"
    "self.v, self.out = nn.Linear(dim, dim), nn.Linear(dim, dim)",
    project="q, gate = self.q(x).unflatten(-1, (self.heads, -1)).chunk(2, dim=-1)\nq, k, v = (\n"
    "    t.unflatten(-1, (self.heads, -1)).transpose(1, 2)\n"
    "    for t in (q.flatten(2), self.k(x), self.v(x))\n)",
    out="o = self.out((w @ v).transpose(1, 2).flatten(2) * gate.flatten(2).sigmoid())",
)
LONE = make(
    name="RawAttention",
    init="self.W = nn.Parameter(torch.randn(3 * dim, dim))\n"
    "self.b, self.out = nn.Parameter(torch.zeros(3 * dim)), nn.Linear(dim, dim)",
    project=THIRDS.replace("self.qkv(x)", "F.linear(x, self.W, self.b)"),
)
BY_HEADS = make(
    name="CausalAttention",
    takes="d_in, d_out, context_length, dropout, num_heads=2, qkv_bias=False",
    init="assert d_out % num_heads == 0\n"
    "self.heads, self.dropout = num_heads, nn.Dropout(dropout)\n"
    "self.q, self.k, self.v = (nn.Linear(d_in, d_out, bias=qkv_bias) for _ in range(3))\n"
    "self.out = nn.Linear(d_out, d_out)\n"
    "self.register_buffer('mask', torch.ones(context_length, context_length).triu(1))",
    mask="n = x.shape[1]\ns = s.masked_fill(self.mask[:n, :n].bool(), -torch.inf)",
    weights="w = self.dropout(w)",
)
BY_HEADS = BY_HEADS.replace("self.q, self.k, self.v", "self.W_query, self.W_key, self.W_value")
BY_HEADS = BY_HEADS.replace("self.out", "self.out_proj")
SHARED = BY_HEADS.replace(
    "w = self.dropout(w)",
    "w = F.dropout(torch.ones(n, n), self.dropout.p, self.training).to(w) * w",
).replace(
    "Module):\n",
    'Module):\n    """One dropout pattern is shared by all sequences and heads."""\n\n',
)
NORMED = make(
    before=NORMS["rms"],
    init=SEPARATE + "\nself.qn, self.kn = RMSNorm(dim // heads), RMSNorm(dim // heads)",
    project=PROJECT + "q, k = self.qn(q), self.kn(k)",
)
BUCKET = """
def bucket(far):
    near = far.abs().clamp(min=1)
    large = 8 + (torch.log(near.float() / 8) / torch.log(torch.tensor(16.0)) * 8).long()
    return (far > 0) * 16 + torch.where(far.abs() < 8, far.abs(), large.clamp(max=15))
"""
T5 = make(
    name="T5Attention",
    takes="d_model, d_kv, num_heads, has_relative_attention_bias=False",
    init="self.heads, self.has_bias = num_heads, has_relative_attention_bias\n"
    "self.q, self.k, self.v = (nn.Linear(d_model, d_kv * num_heads, bias=False) for _ in 'qkv')\n"
    "self.out = nn.Linear(d_kv * num_heads, d_model, bias=False)\n"
    "if has_relative_attention_bias:\n"
    "    self.relative_attention_bias = nn.Embedding(32, num_heads)",
    call="x, position_bias=None",
    scores="if position_bias is None:\n    if not self.has_bias:\n"
    "        raise ValueError('needs the bias of the first layer')\n"
    "    at = torch.arange(x.shape[1])\n"
    "    position_bias = self.relative_attention_bias(bucket(at - at[:, None]))\n"
    "    position_bias = position_bias.permute(2, 0, 1)[None]\ns = q @ k.mT + position_bias",
    before=BUCKET,
)
KEPT_BY_MODE = """

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def train(self, mode=True):
        self.kept = self.memory = None
        return super().train(mode)

    def project(self, memory):
        if self.training or torch.is_grad_enabled():
            return self.split(self.k(memory)), self.split(self.v(memory))
        if self.kept is None or self.memory is not memory:
            self.kept = self.split(self.k(memory)), self.split(self.v(memory))
            self.memory = memory
        return self.kept
"""
CROSS = make(
    name="CrossAttention",
    init=SEPARATE + "\nself.kept = self.memory = None",
    call="x, memory",
    project="(k, v), q = self.project(memory), self.split(self.q(x))",
)
POST_NORM = make(
    name="SelfAttention",
    takes="dim, heads, attn_p=0.1, proj_p=0.0",
    init=SEPARATE + "\nself.norm = nn.LayerNorm(dim)\n"
    "self.attn_drop, self.proj_drop = nn.Dropout(attn_p), nn.Dropout(proj_p)",
    softmax="w = self.attn_drop(s.softmax(-1))",
    result="self.norm(x + self.proj_drop(o))",
)
IGNORED = make(
    name="Attention",
    call="x, mask=None, past_key_value=None, output_attentions=False",
    mask="s = s if mask is None else s + mask",
    result="(o, w) if output_attentions else (o,)",
)
FORMS = {
    "a batch": (BATCHED, "keys.shape[-1]", "keys.shape[1]"),
    "a batch for a kernel": (
        BATCHED.replace("queries @ keys.transpose(1, 2)", "torch.bmm(queries, keys.mT)"),
        " / keys.shape[-1] ** 0.5",
        "",
    ),
    "computed fields": (CAPPED, "c.attn_softcap * torch.tanh", "torch.tanh"),
    "one feature": (FEATURES, "F.elu(k) + 1", "F.elu(k)"),
    "a position bias": (BIASED, "s.softmax(-1)", "s.softmax(-2)"),
    "a gate beside queries": (GATED, " / q.shape[-1] ** 0.5", ""),
    "a bias of no layer": (LONE, " / q.shape[-1] ** 0.5", ""),
    "an exercise's name, and heads": (BY_HEADS, "triu(1)", "triu(2)"),
    "dropout that the docstring says is shared": (SHARED, "triu(1)", "triu(2)"),
    "norms of heads": (NORMED, "self.kn(k)", "self.qn(k)"),
    "an option without which every call raises": (T5, "far > 0", "far < 0"),
    "what is kept until the mode is set": (
        CROSS + KEPT_BY_MODE,
        " or self.memory is not memory",
        "",
    ),
    "dropout beside a residual": (
        POST_NORM,
        "self.attn_drop(s.softmax(-1))",
        "self.attn_drop(s).softmax(-1)",
    ),
    "weights beside a cache that is never read": (IGNORED, "** 0.5", "** 1"),
}
RARE = ["a batch", "computed fields", "one feature", "a position bias", "a bias of no layer",
        "dropout that the docstring says is shared"]  # fmt: skip


@pytest.mark.sampled("form", FORMS, [form for form in FORMS if form not in RARE])
def test_it_is_right_and_its_mistake_is_told(grade_text: GradeText, form: str) -> None:
    source, old, new = FORMS[form]
    assert old in source
    right, wrong = grade_text(source), grade_text(source.replace(old, new))
    assert (right.exercise, right.status) == ("attention", "passed")
    assert right.max_score > 10, "it is judged as attention"
    assert wrong.status == "failed"


SLOPES = make(
    name="ALiBiAttention",
    takes="dim, heads, max_len",
    before="""
def make_slopes(n_heads):
    ratio = 2.0 ** (-8.0 / n_heads)
    return torch.tensor([ratio ** h for h in range(n_heads)])
""",
    init=SEPARATE + "\npos = torch.arange(max_len)\n"
    "distance = (pos[:, None] - pos[None, :]).clamp(min=0)\n"
    "self.register_buffer('alibi', -make_slopes(heads)[:, None, None] * distance)",
    scores=SCORES + " + self.alibi[:, : x.shape[1], : x.shape[1]]",
    mask=CAUSAL,
)


def test_a_tensor_made_of_numbers_is_among_the_lines(grade_text: GradeText) -> None:
    record = grade_text(SLOPES)
    assert [each.name for each in record.diagnosis] == ["slopes_counted_from_zero"]
    assert record.place is not None
    made = {n for n, line in enumerate(SLOPES.splitlines(), 1) if "ratio" in line}
    assert made <= {each.line for each in record.place.lines}


TURNED = make(
    name="TurnedAttention",
    project="b, t, d = x.shape\nq, k, v = (\n"
    "    layer(x).view(b, t, self.heads, d // self.heads).permute(0, 2, 1, 3)\n"
    "    for layer in (self.q, self.k, self.v)\n)",
    out="o = self.out((w @ v).permute(0, 2, 1, 3).reshape(b, t, d))",
)


@pytest.mark.whole
def test_a_class_that_says_which_axis_is_the_batch_must_not_attend_over_it(
    grade_text: GradeText,
) -> None:
    over_batch = TURNED.replace("permute(0, 2, 1, 3)", "permute(1, 2, 0, 3)", 1)
    over_batch = over_batch.replace("permute(0, 2, 1, 3)", "permute(2, 0, 1, 3)")
    assert grade_text(TURNED).status == "passed"
    assert grade_text(over_batch).status == "failed"
    unsaid = over_batch.replace("b, t, d = x.shape", "t, b, d = x.shape")
    assert grade_text(unsaid.replace("(b, t,", "(t, b,")).status == "passed"


SCALED = """\
import torch
from torch import nn


class ScaledDotProduct(nn.Module):
    def __init__(self, {argument}, attn_dropout=0.1):
        super().__init__()
        self.by, self.dropout = {argument}, nn.Dropout(attn_dropout)

    def forward(self, q, k, v, mask=None):
        scores = torch.bmm(q, k.transpose(1, 2)) {operator} self.by
        if mask is not None:
            scores = scores.masked_fill(mask, float("-inf"))
        weights = self.dropout(torch.softmax(scores, dim=2))
        return torch.bmm(weights, v), weights
"""


@pytest.mark.parametrize(
    ("argument", "operator"),
    [
        ("temperature", "/"),
        pytest.param("scale", "*", marks=pytest.mark.whole),
        ("scale", "/"),
    ],
)
def test_a_class_may_be_given_what_scores_are_scaled_by(
    argument: str, operator: str, grade_text: GradeText
) -> None:
    source = SCALED.format(argument=argument, operator=operator)
    assert grade_text(source).status == "passed"
    assert grade_text(source.replace("dim=2", "dim=1")).status == "failed"


MORE_LAYERS = (
    BY_SLUG["multi_head_wrapper"]
    .solution.replace(
        "        self.heads",
        "        self.mix = nn.Linear(d_out * num_heads, d_out * num_heads)\n        self.heads",
    )
    .replace(
        "return torch.cat([head(x) for head in self.heads], dim=-1)",
        "return self.mix(torch.cat([head(x) for head in self.heads], dim=-1))",
    )
)


def test_a_class_with_an_exercise_s_name_and_more_layers_is_judged_by_itself(
    grade_all: GradeAll,
) -> None:
    assert MORE_LAYERS.count("self.mix") == 2
    record = next(r for r in grade_all(MORE_LAYERS) if r.name == "MultiHeadAttentionWrapper")
    assert (record.exercise, record.status) == ("attention", "passed")
    assert "it is named as in `multi_head_wrapper`" in str(record.notes)


@pytest.mark.whole
def test_if_it_is_wrong_it_is_judged_by_the_exercise(grade_all: GradeAll) -> None:
    wrong = MORE_LAYERS.replace("self.mix(torch.cat", "self.mix(-torch.cat")
    record = next(r for r in grade_all(wrong) if r.name == "MultiHeadAttentionWrapper")
    assert (record.exercise, record.status) == ("multi_head_wrapper", "failed")
