"""A class keeps keys and values if an option says so, and takes three inputs by two names."""

import pytest

from tests.grader.conftest import GradeAll, GradeText
from tests.properties.binding.strangers import CAUSAL, OUT, PROJECT, SEPARATE, make

KEEP = """
if use_cache:
    if self.past is not None:
        k = torch.cat([self.past[0], k], dim=2)
        v = torch.cat([self.past[1], v], dim=2)
    self.past = k, v
seen = k.shape[2] - q.shape[2]
"""
LATER = CAUSAL.replace("triu(1)", "triu(1 + seen)")
FORGET = """

    def {}(self):
        self.past = None
"""
KEEPS = make(
    name="Decoder",
    init=SEPARATE + "\nself.past = None",
    call="x, use_cache=False",
    project=PROJECT + KEEP,
    mask=LATER,
) + FORGET.format("forget")
ANSWER = make(
    name="MultiHeadAttention",
    takes="d_in, d_out, context_length, dropout, num_heads, qkv_bias=False",
    init="if d_out % num_heads:\n    raise ValueError('d_out must be a multiple of num_heads')\n"
    "self.heads, self.dropout = num_heads, nn.Dropout(dropout)\n"
    "self.W_query, self.W_key, self.W_value = (nn.Linear(d_in, d_out, qkv_bias) for _ in 'qkv')\n"
    "self.out_proj, self.past = nn.Linear(d_out, d_out), None",
    call="x, use_cache=False",
    project=PROJECT.replace("self.q, self.k, self.v", "self.W_query, self.W_key, self.W_value")
    + KEEP,
    mask=LATER,
    weights="w = self.dropout(w)",
    out=OUT.replace("self.out", "self.out_proj"),
) + FORGET.format("reset_cache")
CROSS = make(
    name="Cross",
    init="self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))",
    call="x, key, value",
    inputs="x, key, value",
    out="o = (w @ v).transpose(1, 2).flatten(2)",
)


def test_a_cache_that_an_option_keeps_is_judged_and_said(grade_text: GradeText) -> None:
    record = grade_text(KEEPS)
    assert record.status == "passed", [p.name for p in record.properties if p.status != "passed"]
    assert "cache" in {prop.group for prop in record.properties}
    said = "with `use_cache=True` a call continues the earlier ones, until `forget()` is called"
    assert said in [note.message for note in record.notes]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (".triu(1 + seen)", ".triu(1)"),
        ("self.past = k, v", "self.past = v, k"),
        ("torch.cat([self.past[1], v], dim=2)", "torch.cat([v, self.past[1]], dim=2)"),
    ],
)
def test_a_mistake_of_a_kept_cache_fails(grade_text: GradeText, right: str, wrong: str) -> None:
    record = grade_text(KEEPS.replace(right, wrong))
    failed = {p.group for p in record.properties if p.status not in ("passed", "not_tried")}
    assert "cache" in failed


def test_what_an_answer_takes_beyond_its_exercise_is_judged_too(grade_all: GradeAll) -> None:
    [right] = grade_all(ANSWER)
    assert (right.exercise, right.status) == ("multi_head_attention", "passed")
    answer, beyond = grade_all(ANSWER.replace(".triu(1 + seen)", ".triu(1)"))
    assert (answer.exercise, answer.status) == ("multi_head_attention", "passed")
    assert (beyond.exercise, beyond.status) == ("attention", "failed")
    said = "it answers `multi_head_attention`, which does not ask for all that its calls take"
    assert said in [note.message for note in beyond.notes]


NAMELESS = make(
    call="x, kv=None",
    project=PROJECT + "if kv is not None:\n"
    "    k, v = (torch.cat(each, 2) for each in zip(kv, (k, v)))\nseen = k.shape[2] - q.shape[2]",
    mask=LATER,
    result="o, (k, v)",
)


def test_a_cache_may_be_an_argument_of_any_name(grade_text: GradeText) -> None:
    right, wrong = (grade_text(each) for each in (NAMELESS, NAMELESS.replace("1 + seen", "1")))
    assert (right.status, wrong.status) == ("passed", "failed")
    assert "cache" in {prop.group for prop in right.properties}
    assert "its `kv` takes what an earlier call returned" in str(right.notes)


KEPT_CONTEXT = (
    make(
        name="Cross",
        init="self.q, self.kv, self.out = (nn.Linear(dim, n * dim) for n in (1, 2, 1))\n"
        "self.kept = None",
        call="x, context",
        project="if self.kept is None:\n    self.kept = self.kv(context).chunk(2, -1)\n"
        "pairs = (self.q(x), *self.kept)\n"
        "q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in pairs)",
    )
    + """

class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.cross, self.norm = Cross(dim, heads), nn.LayerNorm(dim)

    def forward(self, x, context):
        return self.norm(x + self.cross(x, context))


def translate(layer, x, context):
    layer.cross.kept = None
    return layer(x, context)
"""
)


def test_what_the_users_of_a_class_set_to_none_is_so_before_every_call(
    grade_all: GradeAll,
) -> None:
    attention, layer, *others = grade_all(KEPT_CONTEXT)
    assert (attention.name, layer.name) == ("Cross", "Layer")
    assert {each.status for each in (attention, layer, *others)} == {"passed"}
    told = [note.message for note in attention.notes]
    assert "its `kept` is reset to None before every call, as the calling code does" in told
    [kept, *_] = grade_all(KEPT_CONTEXT.replace("    layer.cross.kept = None\n", ""))
    assert kept.status != "passed"


def test_a_class_whose_caller_sets_up_its_cache_is_not_accused(grade_text: GradeText) -> None:
    """Nobody knows what such a method is given, and a call without it raises."""
    needing = KEEPS.replace("        self.past = None\n\n    def", "\n    def")
    needing = needing.replace("def forget(self)", "def set_up(self, n)")
    record = grade_text(needing.replace("if use_cache:", "if self.past is None or True:"))
    assert record.status == "not_tried"
    assert "calls need `past`, which another method sets" in str(record.error)


def test_what_looks_at_keys_is_the_query_by_any_name(grade_text: GradeText) -> None:
    assert grade_text(CROSS).status == "passed"
    exchanged = CROSS.replace("(self.q, self.k, self.v)", "(self.q, self.v, self.k)").replace(
        "x, key, value)\n", "x, value, key)\n"
    )
    assert grade_text(exchanged).status == "failed"


@pytest.mark.parametrize(
    ("cap", "status"),
    [("cap * torch.tanh(s / cap)", "passed"), ("torch.tanh(s / cap)", "failed")],
)
def test_the_limit_of_scores_is_given_by_its_name(
    grade_text: GradeText, cap: str, status: str
) -> None:
    """Once it was False, and every score was divided by zero."""
    source = make(
        takes="dim, heads, logit_softcap",
        init=f"{SEPARATE}\nself.cap = logit_softcap",
        mask=f"cap = self.cap\ns = {cap}\n{CAUSAL}",
    )
    assert grade_text(source).status == status
