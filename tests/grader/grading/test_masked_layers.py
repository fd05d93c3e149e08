"""Masks of layers and models hide their tokens, whatever form they have."""

import pytest

from headcheck.grader.grading.open_mode.masked_layers import MASKED
from tests.grader.conftest import GradeAll
from tests.grader.grading.test_layers import HEAD, observe
from tests.properties.binding.strangers import FUSED, SCORES, THIRDS, make

pytestmark = pytest.mark.filterwarnings("ignore")

ADDING = make(
    name="Attention", init=FUSED, call="x, added", project=THIRDS, scores=f"{SCORES} + added"
)
MODEL = '''
class Model(nn.Module):
    """{said}"""

    def __init__(self, dim, heads, vocab=11):
        super().__init__()
        self.embed, self.norm = {embed}, nn.LayerNorm(dim)
        self.layers = nn.ModuleList(Attention(dim, heads) for _ in range(2))

    def forward(self, x, attention_mask=None):
        x = self.embed(x)
        if attention_mask is None:
            attention_mask = {none}
        {made}
        for layer in self.layers:
            x = x + layer(self.norm(x), added)
        return x
'''
OF_TOKENS = {
    "said": "",
    "embed": "nn.Linear(dim, dim)",
    "none": "torch.ones(x.shape[:2])",
    "made": "added = (1 - attention_mask[:, None, None, :].to(x)) * -1e9",
}
RIGHT = {
    "of keys": {},
    "for numbers of tokens": {"embed": "nn.Embedding(vocab, dim)"},
    "of queries and keys": {
        "none": "torch.ones(x.shape[0], x.shape[1], x.shape[1])",
        "made": "added = (1 - attention_mask[:, None].to(x)) * -1e9",
    },
    "true where it hides": {
        "said": "attention_mask is True for padding.",
        "none": "torch.zeros(x.shape[:2], dtype=torch.bool)",
        "made": "added = attention_mask[:, None, None].to(x) * -1e9",
    },
}
WRONG = {
    "laid along the queries": {
        "made": "added = (1 - attention_mask[:, None, :, None].to(x)) * -1e9"
    },
    "laid along the queries of numbers of tokens": {
        "embed": "nn.Embedding(vocab, dim)",
        "made": "added = (1 - attention_mask[:, None, :, None].to(x)) * -1e9",
    },
    "lost": {"made": "added = 0 * attention_mask[:, None, None]"},
    "the opposite of what is said": {
        "said": "attention_mask is True for padding.",
        "none": "torch.ones(x.shape[:2], dtype=torch.bool)",
        "made": "added = (~attention_mask[:, None, None]).to(x) * -1e9",
    },
}


@pytest.mark.parametrize("kind", RIGHT)
def test_masks_that_hide_their_tokens_are_right(kind: str) -> None:
    layer = observe(ADDING + MODEL.format(**OF_TOKENS | RIGHT[kind]), "Model")
    assert layer.breaches == () and MASKED in layer.claims


@pytest.mark.parametrize("kind", WRONG)
def test_masks_that_hide_nothing_are_told(kind: str) -> None:
    [breach] = observe(ADDING + MODEL.format(**OF_TOKENS | WRONG[kind]), "Model").breaches
    assert breach.claim is MASKED
    assert breach.got == "it changes them, with each kind of mask that `attention_mask` takes"


def test_a_layer_without_a_mask_is_not_asked() -> None:
    plain = MODEL.replace("x, attention_mask=None", "x").replace("if attention_mask is None:", "")
    plain = plain.replace("            attention_mask =", "        attention_mask =")
    assert MASKED not in observe(ADDING + plain.format(**OF_TOKENS), "Model").claims


def test_of_many_inputs_nobody_knows_which_ones_a_mask_hides() -> None:
    """As of two graphs, each with its places, and a mask for each."""
    many = MODEL.format(**OF_TOKENS | {"made": "added = 0 * attention_mask[:, None, None]"})
    many = many.replace("x, attention_mask=None", "x, y, places, others, attention_mask=None")
    many = many.replace("x = self.embed(x)", "x = self.embed(x + y + places + others)")
    assert MASKED not in observe(ADDING + many, "Model").claims


RESAMPLER = """
class Resampler(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q, self.kv, self.o = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)

    def forward(self, media, latents, mask=None):
        k, v = self.kv(torch.cat((media, latents), 1)).chunk(2, -1)
        q, k, v = (
            t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (self.q(latents), k, v)
        )
        if mask is not None:
            mask = F.pad(mask, (0, latents.shape[1]), value=True)[:, None, None]
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.o(out.transpose(1, 2).flatten(2))
"""
PADDED = "F.pad(mask, (0, latents.shape[1]), value=True)"


@pytest.mark.parametrize(
    ("old", "new", "statuses"),
    [
        ("", "", ["passed"]),
        ("(0, latents.shape[1])", "(latents.shape[1], 0)", ["passed", "failed"]),
        ("attn_mask=mask", "", ["passed", "failed"]),
        (PADDED, PADDED.replace("mask,", "~mask,"), ["passed"]),
        (PADDED, "mask", ["passed"]),
    ],
    ids=["right", "at the wrong end", "without an effect", "true where it hides", "of all keys"],
)
def test_a_mask_of_a_context_beside_the_tokens_of_queries(
    old: str, new: str, statuses: list[str], grade_all: GradeAll
) -> None:
    records = grade_all(HEAD + RESAMPLER.replace(old, new))
    assert [record.status for record in records] == statuses


ADDITIVE = """
class AdditiveAttention(nn.Module):
    def __init__(self, query_size, key_size, hidden):
        super().__init__()
        self.W_q, self.W_k = nn.Linear(query_size, hidden), nn.Linear(key_size, hidden)
        self.w_v = nn.Linear(hidden, 1)

    def forward(self, queries, keys, values, valid_lens=None):
        features = torch.tanh(self.W_q(queries)[:, :, None] + self.W_k(keys)[:, None])
        scores = self.w_v(features).squeeze(-1)
        if valid_lens is not None:
            lens = valid_lens[:, None] if valid_lens.dim() == 1 else valid_lens
            hidden = torch.arange(keys.shape[1]) >= lens[:, :, None]
            scores = scores.masked_fill(hidden, -1e6)
        return scores.softmax(-1) @ values
"""


def test_lengths_for_each_sequence_or_for_each_query_hide_the_last_keys() -> None:
    layer = observe(ADDITIVE, "AdditiveAttention")
    assert layer.breaches == () and MASKED in layer.claims
    wrong = ADDITIVE.replace(">= lens", "< lens")
    [breach] = observe(wrong, "AdditiveAttention").breaches
    assert breach.claim is MASKED
