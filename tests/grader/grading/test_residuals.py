"""Where a layer has residuals, each part adds to its tokens; layers are right in many ways."""

import pytest

from tests.grader.grading.test_layers import ALL_SEE, OF_TORCH, OWN, observe

pytestmark = pytest.mark.filterwarnings("ignore")

LAYER = """
class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attn, self.other = Attention(dim, heads), Attention(dim, heads)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.up, self.gate, self.down = (nn.Linear(dim, dim) for _ in range(3))

    def feed(self, x):
        return self.down(F.gelu(self.up(x)))

    def forward(self, x):
{body}
"""
RIGHT = {
    "norms first": """
        x = x + self.attn(self.norm1(x))
        return x + self.feed(self.norm2(x))""",
    "norms last": """
        x = self.norm1(x + self.attn(x))
        return self.norm2(self.feed(x) + x)""",
    "norms on both sides": """
        x = x + self.norm2(self.attn(self.norm1(x)))
        return x + self.norm2(self.feed(self.norm1(x)))""",
    "parts beside each other": """
        n = self.norm1(x)
        return x + self.attn(n) + self.feed(n)""",
    "gated feed-forward": """
        x = x + self.attn(self.norm1(x))
        n = self.norm2(x)
        return x + self.down(F.silu(self.up(n)) * self.gate(n))""",
    "scaled residuals": """
        x = self.norm1(1.3 * x + self.attn(x))
        return self.norm2(1.3 * x + self.feed(x))""",
    "a norm by hand": """
        n = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        x = x + self.attn(n)
        return x + self.feed(self.norm2(x) + 0 * self.norm1(x))""",
    "no residual": """
        return self.feed(self.norm2(self.attn(self.norm1(x))))""",
    "two attentions": """
        x = x + self.attn(self.norm1(x))
        x = x + self.other(self.norm2(x))
        return x + self.feed(self.norm2(x))""",
    "tokens normed once, then norms first": """
        x = self.norm1(x)
        x = x + self.attn(self.norm2(x))
        return x + self.feed(self.norm2(x))""",
    "an activation between sums": """
        x = torch.relu(x + self.attn(x))
        return torch.relu(x + self.feed(x))""",
    "a narrower part after the sum": """
        x = x + self.attn(self.norm1(x))
        x = self.up(x)
        return x + self.feed(self.norm2(x))""",
    "a layer of the sum, which is no feed-forward": """
        x = x + self.attn(self.norm1(x))
        return self.down(x * self.up.weight.mean())""",
}
REPLACED = "takes the place of its tokens"
WRONG = {
    "attention": ("""
        x = self.attn(self.norm1(x))
        return x + self.feed(self.norm2(x))""", f"what attention gives {REPLACED}", 2),
    "attention, norms last": ("""
        x = self.norm1(self.attn(x))
        return self.norm2(x + self.feed(x))""", f"what attention gives {REPLACED}", 2),
    "feed-forward": ("""
        x = x + self.attn(self.norm1(x))
        return self.feed(self.norm2(x))""", f"what a feed-forward gives {REPLACED}", 3),
    "feed-forward, norms last": ("""
        x = self.norm1(x + self.attn(x))
        return self.norm2(self.feed(x))""", f"what a feed-forward gives {REPLACED}", 3),
    "the second of two attentions": ("""
        x = x + self.attn(self.norm1(x))
        x = self.other(self.norm2(x))
        return x + self.feed(self.norm2(x))""", f"what attention gives {REPLACED}", 3),
    "old tokens": ("""
        y = self.norm1(x + self.attn(x))
        return self.norm2(x + self.feed(y))""", "no later sum starts from this one", 2),
    "normed tokens": ("""
        x = self.norm1(x)
        x = x + self.attn(x)
        return x + self.feed(self.norm2(x))""", "normed tokens are added to", 3),
    "normed tokens of the second part": ("""
        x = x + self.attn(self.norm1(x))
        n = self.norm2(x)
        return n + self.feed(n)""", "normed tokens are added to", 4),
}  # fmt: skip


def make(body: str, source: str = OWN) -> str:
    return source + LAYER.format(body=body.strip("\n"))


@pytest.mark.parametrize("body", RIGHT.values(), ids=RIGHT)
def test_a_layer_may_add_in_every_usual_way(body: str) -> None:
    assert observe(make(body), "Layer").breaches == ()


@pytest.mark.parametrize(("body", "got", "line"), WRONG.values(), ids=WRONG)
def test_a_part_that_takes_the_place_of_its_tokens_is_told(body: str, got: str, line: int) -> None:
    source = make(body)
    [breach] = observe(source, "Layer").breaches
    assert breach.claim.name == "parts_add_to_their_tokens"
    assert got in breach.got
    [(_, at)] = breach.lines
    lines = f"\nimport torch\nfrom torch import nn\nfrom torch.nn import functional as F\n{source}"
    assert lines.splitlines()[at - 1] in body.splitlines()[line - 1 : line + 1]


def test_attention_of_torch_is_added_too() -> None:
    plain = OF_TORCH.format(option=", batch_first=True", step=ALL_SEE)
    fed = plain.replace("self.norm(x + self.attn(x, x, x, attn_mask=hidden)[0])", "{}").replace(
        "self.norm =", "self.feed, self.norm = nn.Linear(dim, dim),"
    )
    right = "self.norm(x + self.attn(x, x, x, attn_mask=hidden)[0])\n"
    again = "\n        return x + self.feed(x)"
    added = fed.replace("return {}", "x = " + right + again.strip("\n"))
    assert observe(added, "Layer").breaches == ()
    lost = added.replace("x + self.attn(x", "self.attn(x")
    [breach] = observe(lost, "Layer").breaches
    assert breach.got == f"what attention gives {REPLACED}"


def test_learned_queries_need_no_residual() -> None:
    """As where tokens are pooled: what attention gives are no tokens of the layer."""
    pooled = """
class Pool(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.probe = nn.Parameter(torch.randn(1, 1, dim))
        self.attention = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.norm, self.feed = nn.LayerNorm(dim), nn.Linear(dim, dim)

    def forward(self, x):
        probe = self.probe.repeat(x.shape[0], 1, 1)
        x = self.attention(probe, x, x)[0]
        return x + self.feed(self.norm(x))
"""
    assert observe(pooled, "Pool").breaches == ()


NORMS_OF_ONE_KIND = """
        n = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.norm1.weight
        y = n + self.attn(n)
        n = self.norm2(y)
        return n + self.feed(n)"""


def test_norms_after_sums_may_be_an_option_beside_norms_first() -> None:
    said = 'class Layer(nn.Module):\n    """`norm_first` switches to pre-norm."""\n'
    source = make(RIGHT["norms last"]).replace("class Layer(nn.Module):\n", said)
    assert said in source and observe(source, "Layer").breaches == ()


@pytest.mark.parametrize("said", ["", '"""Pre-LN: x + part(norm(x))."""'])
def test_a_layer_that_says_that_its_norms_come_first_may_not_add_to_normed_tokens(
    said: str,
) -> None:
    """As in a stack with norms after its sums, which such layers are a part of otherwise."""
    source = make(NORMS_OF_ONE_KIND).replace(
        "def forward(self, x):", f"def forward(self, x):\n        {said}"
    )
    found = [each.got for each in observe(source, "Layer").breaches if "norm" in each.got]
    assert bool(found) is bool(said)
