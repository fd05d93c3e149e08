"""What stands around attention in a class is left out, cleared or filled, and said."""

import textwrap

import pytest

from headcheck.properties.binding.binding import Binding, NotBound
from headcheck.properties.binding.describe import list_assumptions
from headcheck.properties.binding.other_kinds import name_other_kind
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.listing.summary import load_summaries
from headcheck.properties.signatures.signature import Signature
from headcheck.properties.terms.call_form import Given, MaskSource, Polarity
from headcheck.properties.terms.group import PropertyGroup
from tests.forms.bank import open_class
from tests.properties.binding.strangers import (
    PROJECT,
    SEPARATE,
    bind_source,
    make,
    mistaken,
    must_bind,
)

pytestmark = pytest.mark.filterwarnings("ignore")
C = Capability

NORM = SEPARATE + "\nself.norm = nn.LayerNorm(dim)"
KEEP = """
if self.kept is not None:
    k, v = torch.cat([self.kept[0], k], 2), torch.cat([self.kept[1], v], 2)
self.kept = k, v
"""
CACHED = make(
    call="x, past=None, use_cache=False",
    project=PROJECT + "if past is not None:\n"
    "    k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)\n"
    "new, all_ = q.shape[2], k.shape[2]\n"
    "shown = torch.ones(new, all_, dtype=torch.bool).tril(START)",
    mask="s = s.masked_fill(~shown, -torch.inf)",
    result="(o, (k, v)) if use_cache else o",
)
KEPT = make(
    takes="dim, heads, max_batch_size, max_seq_len",
    init=SEPARATE + "\nsize = max_batch_size, max_seq_len, dim\n"
    "self.cache_k, self.cache_v = torch.zeros(size), torch.zeros(size)",
    call="x, start_pos: int",
    project="""
b, t, w = x.shape
q, k, v = self.q(x), self.k(x), self.v(x)
self.cache_k, self.cache_v = self.cache_k.to(x), self.cache_v.to(x)
self.cache_k[:b, start_pos : start_pos + t] = k
self.cache_v[:b, start_pos : start_pos + t] = v
k, v = self.cache_k[:b, : start_pos + t], self.cache_v[:b, : start_pos + t]
q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
""",
)


def says(source: str, found: Binding) -> str:
    _, signature = open_class(source, "Own")
    return "\n".join((*list_assumptions(signature, found.contract), *found.remarks))


def test_a_norm_of_the_tokens_is_left_out() -> None:
    source = make(init=NORM, inputs="self.norm(x), self.norm(x), self.norm(x)")
    found = must_bind(source)
    assert found.contract.call_form.bypassed == ("norm",)
    assert not found.contract.call_form.adds_tokens
    assert "judged without its `norm`" in says(source, found)


def test_a_residual_beside_a_norm_is_taken_off() -> None:
    source = make(init=NORM, result="self.norm(x + o)")
    found = must_bind(source)
    assert found.contract.call_form.adds_tokens
    assert "taken off" in says(source, found)


def test_what_is_wrong_beside_a_norm_is_named() -> None:
    scores = "s = q @ k.mT"
    assert mistaken(make(init=NORM, result="self.norm(x + o)", scores=scores)) == ["no_scale"]


def test_lazy_layers_are_filled() -> None:
    init = "self.q, self.k, self.v, self.out = (nn.LazyLinear(dim) for _ in range(4))"
    assert must_bind(make(init=init)).contract.call_form.is_lazy


def test_sizes_of_queries_keys_and_values_beside_a_width_are_those_of_tokens() -> None:
    takes = "key_size, query_size, value_size, num_hiddens, heads, dropout=0.0"
    sizes = zip(["q", "k", "v", "out"], ["query", "key", "value", "hidden"], strict=True)
    width = {"hidden": "num_hiddens"}
    init = "\n".join(
        f"self.{name} = nn.Linear({width.get(size, size + '_size')}, num_hiddens)"
        for name, size in sizes
    )
    found = must_bind(make(takes=takes, init=init))
    given = {a.name: a.quantity for a in found.contract.arguments}
    assert given["key_size"] == "d_in"
    assert given["num_hiddens"] == "d_out"


def test_lengths_may_be_required() -> None:
    mask = """
    shown = torch.arange(s.shape[-1]) < valid_lens.reshape(len(valid_lens), 1, -1, 1)
    s = s.masked_fill(~shown, -torch.inf)
    """
    found = must_bind(make(call="x, valid_lens", mask=textwrap.dedent(mask)))
    assert found.contract.call_form.mask.given_as is MaskSource.LENGTHS
    assert found.contract.call_form.mask.required


def test_a_method_that_forgets_is_called_before_every_call() -> None:
    forgets = "\n\n    def reset_cache(self):\n        self.kept = None\n"
    source = make(
        init=SEPARATE + "\nself.kept = None",
        project=PROJECT + KEEP,
    )
    found = must_bind(source + forgets)
    assert found.contract.call_form.reset == "reset_cache"
    assert "`reset_cache()` is called before every call" in says(source + forgets, found)


def test_tensors_that_keep_earlier_tokens_are_cleared() -> None:
    small = KEPT.replace("max_batch_size, max_seq_len)", "max_batch_size=1, max_seq_len=9)")
    assert small != KEPT, "it has a default"
    must_bind(small)  # for more sequences than that
    found = must_bind(KEPT)
    assert found.contract.call_form.cleared == ("cache_k", "cache_v")
    assert "`cache_k` and `cache_v` are cleared" in says(KEPT, found)


@pytest.mark.parametrize("start", ["all_ - new", "0"])
def test_a_cache_that_comes_back_is_claimed_whether_it_is_right_or_not(start: str) -> None:
    found = must_bind(CACHED.replace("START", start))
    cache = found.contract.call_form.cache
    assert cache is not None and (cache.argument, cache.place) == ("past", 1)
    assert found.contract.has(C.CACHE)
    assert found.contract.call_form.given == {"use_cache": Given.TRUE}


def test_a_decorator_says_that_there_are_no_gradients() -> None:
    source = make().replace("    def forward", "    @torch.inference_mode()\n    def forward")
    found = must_bind(source)
    gradients = [p.name for p in load_summaries() if p.group is PropertyGroup.GRADIENTS]
    assert found.contract.waived and {*found.contract.waived} <= {*gradients}
    assert "gradients are not judged" in says(source, found)


@pytest.mark.parametrize("result", ["(o, w) if need_weights else o"])
def test_an_option_that_asks_for_weights_is_used(result: str) -> None:
    found = must_bind(make(call="x, need_weights=False", result=result))
    assert found.contract.has(C.WEIGHTS)
    assert found.contract.call_form.given == {"need_weights": Given.TRUE}
    assert found.contract.call_form.without_weights == {"need_weights": False}


def test_scores_returned_as_weights_are_claimed_where_weights_are_promised() -> None:
    source = make(result="o, s").replace(
        "(nn.Module):", '(nn.Module):\n    """Returns outputs and attention weights."""\n'
    )
    found = bind_source(source)
    assert isinstance(found, Binding) and found.contract.has(C.WEIGHTS)


def test_a_mask_that_is_said_to_be_true_or_false_is_not_added() -> None:
    source = make(call="x, mask=None", mask="s = s if mask is None else s + mask").replace(
        "(nn.Module):", '(nn.Module):\n    """mask: True = keep"""\n'
    )
    found = bind_source(source)
    assert isinstance(found, Binding)
    assert found.contract.call_form.mask.polarity is Polarity.KEEP
    assert found.contract.call_form.mask.dtype == "bool"


def test_what_stands_after_the_name_of_a_mask_explains_it() -> None:
    doc = '(nn.Module):\n    """mask : (batch, seq)\n        True for padding\n    """\n'
    fill = "s = s if mask is None else s.masked_fill(~mask[:, None, None], -torch.inf)"
    source = make(call="x, mask=None", mask=fill).replace("(nn.Module):", doc)
    found = bind_source(source)
    assert isinstance(found, Binding)
    assert found.contract.call_form.mask.polarity is Polarity.BLOCK


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Bahdanau", "additive"),
        ("SwinAttention", "windows"),
        ("LSHAttention", "sparse"),
        ("MultiheadDiffAttn", "differential"),
    ],
)
def test_other_kinds_are_named(name: str, kind: str) -> None:
    assert kind in name_other_kind(Signature(name, (), ()), ())


@pytest.mark.whole
def test_a_class_of_another_kind_is_not_judged() -> None:
    source = make(name="Bahdanau", scores="s = torch.tanh(q @ k.mT) * 3")
    found = bind_source(source, "Bahdanau")
    assert isinstance(found, NotBound)
    assert found.tried == "additive attention: not judged"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("self_attn.in_proj_weight", "a layer around torch.nn.MultiheadAttention"),
        ("in_proj_weight", ""),  # the class itself may be judged
        ("rel_k.embeddings_table", "attention with a vector for each distance"),
        ("relative_key.weight", "attention with a vector for each distance"),
        ("relative_attention_bias.weight", ""),
    ],
)
def test_kinds_are_named_by_their_tensors(path: str, kind: str) -> None:
    assert name_other_kind(Signature("Layer", (), ()), [path]) == kind


def test_a_context_that_an_option_switches_off_is_not_asked_for() -> None:
    source = make(
        takes="dim, heads, cross=False",
        init=SEPARATE + "\nself.cross = cross",
        call="x, context=None, mask=None",
        inputs="x, *((context, context) if self.cross else (x, x))",
    )
    assert not must_bind(source).contract.has(C.CROSS)


@pytest.mark.parametrize(
    ("norm", "kind"),
    [
        ("F.rms_norm({}, (q.shape[-1],))", "rms"),
        ("{} / ({}.square().mean(-1, True) + 1e-5).sqrt()", "rms"),
        ("F.layer_norm({}, (q.shape[-1],))", "layer"),
    ],
)
def test_norms_that_learn_nothing_are_taken_as_meant(norm: str, kind: str) -> None:
    applied = "".join(f"\n{name} = {norm.replace('{}', name)}" for name in ("q", "k"))
    found = must_bind(make(project=PROJECT + applied))
    assert found.contract.norm.value == kind
    assert any("a norm that learns nothing" in remark for remark in found.remarks)


@pytest.mark.whole
def test_a_norm_of_queries_alone_is_a_mistake() -> None:
    source = make(project=PROJECT + "\nq = F.rms_norm(q, (q.shape[-1],))")
    assert mistaken(source) == ["one_role_normalised"]


LAYER = """

class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attn = Own(dim, heads)

    def forward(self, x):
        return x + self.attn(x)
"""


def test_a_residual_around_a_part_that_is_attention_is_taken_off() -> None:
    found = must_bind(make() + LAYER, "Layer")
    assert found.contract.call_form.adds_tokens
