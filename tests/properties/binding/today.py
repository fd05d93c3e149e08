"""Classes in the styles of today's models, made of steps: norms, turned parts, sinks, gates."""

from tests.properties.binding.strangers import HEAD

RMS = """
class RMSNorm(nn.Module):
    def __init__(self, *width, eps=1e-6):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.{start}(width))

    def forward(self, x):
        size = x.{cast}pow(2).mean(-1, keepdim=True)
        return ({gain} * (x * torch.rsqrt(size + self.eps))).to(x.dtype)

"""
NORMS = {
    "": "",
    "rms": RMS.format(start="ones", cast="", gain="self.weight"),
    "rms_float32": RMS.format(start="ones", cast="float().", gain="self.weight"),
    "rms_plus_one": RMS.format(start="zeros", cast="", gain="(1 + self.weight)"),
    "length": """
class RMSNorm(nn.Module):
    def __init__(self, *width):
        super().__init__()
        self.scale, self.gamma = width[-1] ** 0.5, nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.normalize(x, dim=-1) * self.gamma * self.scale

""",
    "layer": "RMSNorm = nn.LayerNorm\n",
    "torch": "RMSNorm = nn.RMSNorm\n",
}
TURN = """
def turn(t, count, base=1e4):
    rates = base ** -(torch.arange(0, count, 2, dtype=t.dtype) / count)
    angles = torch.outer(torch.arange(t.shape[-2], dtype=t.dtype), rates)
    cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
    head, tail = t[..., :count], t[..., count:]
    a, b = head.chunk(2, -1)
    return torch.cat([head * cos + torch.cat([-b, a], -1) * sin, tail], -1)

"""
SINKS = {
    "": ("", ""),
    "flat": ("self.sinks = nn.Parameter(torch.zeros(heads))", "self.sinks.view(1, -1, 1, 1)"),
    "column": ("self.sink = nn.Parameter(torch.zeros(heads, 1, 1))", "self.sink[None]"),
    "whole": ("self.sink_logit = nn.Parameter(torch.zeros(1, heads, 1, 1))", "self.sink_logit"),
}
GATES = {
    "": ("", ""),
    "numbers": ("self.gate = nn.Linear(dim, dim, bias=False)", "o = o * self.gate(x).sigmoid()"),
    "with_bias": ("self.g_proj = nn.Linear(dim, dim)", "o = torch.sigmoid(self.g_proj(x)) * o"),
    "heads": (
        "self.to_gates = nn.Linear(dim, heads, bias=False)",
        "g = self.to_gates(x).sigmoid()[..., None]\n"
        "o = (o.unflatten(-1, (self.heads, -1)) * g).flatten(2)",
    ),
    "heads_with_bias": (
        "self.head_gate = nn.Linear(dim, heads)",
        "g = torch.sigmoid(self.head_gate(x)).unsqueeze(-1)\n"
        "o = (o.unflatten(-1, (self.heads, -1)) * g).flatten(2)",
    ),
}
OUTPUTS = {
    "linear": ("self.o_proj = nn.Linear(dim, dim, bias=False)", "return self.o_proj(o)"),
    "axes": (
        "self.o_proj = nn.Parameter(torch.randn(heads, dim // heads, dim))",
        'return torch.einsum("bthk,hkd->btd", o.unflatten(-1, (self.heads, -1)), self.o_proj)',
    ),
}
PROJECTIONS = {
    "linear": (
        "self.q_proj = nn.Linear(dim, dim, bias=False)\n"
        "self.k_proj = nn.Linear(dim, dim // heads * {kv}, bias=False)\n"
        "self.v_proj = nn.Linear(dim, dim // heads * {kv}, bias=False)",
        "q, k, v = (p(x).unflatten(-1, (-1, self.width)).transpose(1, 2)\n"
        "           for p in (self.q_proj, self.k_proj, self.v_proj))",
    ),
    "axes": (
        "self.w_q, self.w_k, self.w_v = (\n"
        "    nn.Parameter(torch.randn(dim, n, dim // heads)) for n in (heads, {kv}, {kv})\n)",
        'q, k, v = (torch.einsum("btd,dhk->bhtk", x, w) for w in (self.w_q, self.w_k, self.w_v))',
    ),
}
WHOLE = (
    "q, k, v = self.q_norm(self.q_proj(x)), self.k_norm(self.k_proj(x)), self.v_proj(x)\n"
    "q, k, v = (t.unflatten(-1, (-1, self.width)).transpose(1, 2) for t in (q, k, v))"
)
"""projections whose norms are over all heads"""
OWN = {"column": "{}, 1, dim // heads", "one_column": "1, {}, 1, dim // heads"}
"""the shapes of gains, if each head has its own"""
SHARED = "k, v = (t.repeat_interleave(self.heads // t.shape[1], 1) for t in (k, v))"
ATTEND = """
s = q @ k.mT * self.width ** -0.5
s = s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
"""
SOFTMAX = "w = s.softmax(-1)"
WITH_SINKS = "w = torch.cat([s, {sink}.expand(*s.shape[:-1], 1)], -1).softmax(-1)[..., :-1]"


def make_today(
    *,
    norm: str = "",
    share: float = 0,
    sink: str = "",
    gate: str = "",
    out: str = "linear",
    projections: str = "linear",
    shared: bool = False,
    whole: bool = False,
    own: str = "",
) -> str:
    """The source of a causal class with these steps."""
    kv = "kv_heads" if shared else "heads"
    made, project = PROJECTIONS[projections]
    widths: tuple[str, ...] = (
        ("dim", f"dim // heads * {kv}") if whole else ("dim // heads", "dim // heads")
    )
    widths = tuple(OWN[own].format(n) for n in ("heads", kv)) if own else widths
    norms = "self.q_norm, self.k_norm = RMSNorm({}), RMSNorm({})".format(*widths)
    init = [
        "super().__init__()",
        "self.heads, self.width = heads, dim // heads",
        made.format(kv=kv),
        norms if norm else "",
        SINKS[sink][0],
        GATES[gate][0],
        OUTPUTS[out][0],
    ]
    forward = [
        WHOLE if whole else project,
        "q, k = self.q_norm(q), self.k_norm(k)" if norm and not whole else "",
        f"count = int(self.width * {share})\nq, k = turn(q, count), turn(k, count)"
        if share
        else "",
        SHARED if shared else "",
        ATTEND,
        WITH_SINKS.format(sink=SINKS[sink][1]) if sink else SOFTMAX,
        "o = (w @ v).transpose(1, 2).flatten(2)",
        GATES[gate][1],
        OUTPUTS[out][1],
    ]
    takes = "dim, heads, kv_heads" if shared else "dim, heads"
    before = NORMS[norm] + (TURN if share else "")
    return HEAD + before + _write_class(takes, init, forward)


def _write_class(takes: str, init: list[str], forward: list[str]) -> str:
    made = f"\nclass Own(nn.Module):\n    def __init__(self, {takes}):\n{_indent(init)}"
    return f"{made}\n    def forward(self, x):\n{_indent(forward)}"


def _indent(parts: list[str]) -> str:
    lines = "\n".join(part for part in parts if part).split("\n")
    return "".join(f"        {line}\n" for line in lines if line)
