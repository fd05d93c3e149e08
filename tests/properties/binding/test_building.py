"""A class is constructed with whatever it takes: sizes, configs of every style, nothing at all."""

import pytest

from headcheck.properties.binding.binding import Binding
from headcheck.properties.binding.building import build_all
from headcheck.properties.binding.constructors import iter_suggested
from headcheck.properties.contracts.contract import CONSTANT, Contract
from tests.forms.bank import open_class
from tests.properties.binding.strangers import SEPARATE, bind_source, make, mistaken, must_bind

pytestmark = pytest.mark.filterwarnings("ignore")

SIZES = "dim, heads = {dim}, {heads}\nself.heads = heads\n"


def fields_of(contract: Contract) -> dict[str, str]:
    """What a config has to hold, and what each is."""
    return {f.name: f.quantity for a in contract.arguments for f in a.fields}


def configured(dim: str, heads: str, *, more: str = "", before: str = "") -> Contract:
    init = SIZES.format(dim=dim, heads=heads) + SEPARATE + "\n" + more
    return must_bind(make(takes="config", init=init, before=before)).contract


@pytest.mark.parametrize(
    ("dim", "heads"),
    [
        ("config.hidden_size", "config.num_attention_heads"),
        ("config['emb_dim']", "config['n_heads']"),
        ("config.get('d_model')", "config.get('nhead', 2)"),
        ("config.n_embd", "config['n_head']"),
    ],
)
def test_a_config_is_completed_by_what_it_is_asked_for(dim: str, heads: str) -> None:
    fields = fields_of(configured(dim, heads))
    assert list(fields.values()) == ["d_out", "heads"]
    assert all(name in dim + heads for name in fields)


def test_a_config_may_be_read_into_another() -> None:
    before = """
@dataclass
class Settings:
    n_embd: int
    n_head: int
"""
    init = "s = Settings(config.n_embd, config.n_head)\n"
    contract = must_bind(
        make(
            takes="config",
            before=before,
            init=init + SIZES.format(dim="s.n_embd", heads="s.n_head") + SEPARATE,
        )
    ).contract
    assert fields_of(contract) == {"n_embd": "d_out", "n_head": "heads"}


def test_a_config_with_a_default_is_given_all_the_same() -> None:
    before = """
@dataclass
class Settings:
    dim: int = 32
    n_heads: int = 2
"""
    init = SIZES.format(dim="args.dim", heads="args.n_heads") + SEPARATE
    contract = must_bind(make(takes="args=Settings()", init=init, before=before)).contract
    assert fields_of(contract) == {"dim": "d_out", "n_heads": "heads"}


OWN_CONFIG = """
@dataclass
class Settings:
    blorp: int = 24
    pieces: int = 4

    def per_piece(self):
        return self.blorp // self.pieces
"""
SHAPED = """
assert isinstance(config, Settings), "settings, please"
self.heads, dim = config.pieces, config.per_piece() * config.pieces
"""


@pytest.mark.parametrize("default", ["None", "Settings()"])
def test_a_config_that_no_other_object_replaces_is_left_at_its_default(default: str) -> None:
    init = f"config = config or Settings()\n{SHAPED}{SEPARATE}"
    contract = must_bind(make(takes=f"config={default}", init=init, before=OWN_CONFIG)).contract
    assert contract.arguments == ()
    assert contract.sizes == {"heads": 4, "head_dim": 6, "d_in": 24}


@pytest.mark.whole
def test_what_is_wrong_with_its_default_config_is_named() -> None:
    init = f"config = config or Settings()\n{SHAPED}{SEPARATE}"
    source = make(takes="config=None", init=init, scores="s = q @ k.mT", before=OWN_CONFIG)
    assert mistaken(source) == ["no_scale"]


@pytest.mark.parametrize("field", ["cap", "attn_logit_softcapping"])
def test_a_limit_of_scores_in_a_config_is_a_number(field: str) -> None:
    init = f"self.cap = config.{field}\n" + SIZES.format(dim="config.dim", heads="config.n_q")
    scores = "s = torch.tanh(q @ k.mT / q.shape[-1] ** 0.5 / self.cap) * self.cap"
    contract = must_bind(make(takes="config", init=init + SEPARATE, scores=scores)).contract
    assert fields_of(contract) == {field: "softcap", "dim": "d_out", "n_q": "heads"}


def test_what_a_config_may_lack_is_left_out() -> None:
    more = "self.extra = config.get('blorp', 7)"
    contract = configured("config.n_embd", "config.n_head", more=more)
    assert "blorp" not in fields_of(contract)


def test_what_only_a_call_asks_a_config_for_is_added_then() -> None:
    init = "self.config = config\n" + SIZES.format(dim="config.n_embd", heads="config.n_head")
    scores = "assert not self.config.use_flash\ns = q @ k.mT / q.shape[-1] ** 0.5"
    contract = must_bind(make(takes="config", init=init + SEPARATE, scores=scores)).contract
    assert fields_of(contract)["use_flash"] == CONSTANT


def test_sizes_may_come_from_variables_of_the_submission() -> None:
    before = "n_embd = 24\n"
    source = make(takes="heads", init=f"dim = n_embd\n{SEPARATE}", before=before)
    contract = must_bind(source).contract
    assert [(v.name, v.quantity) for v in contract.variables] == [("n_embd", "d_out")]


def test_a_class_that_takes_nothing_has_fixed_sizes() -> None:
    source = make(takes="", init=f"dim, self.heads = 12, 2\n{SEPARATE}").replace("self, )", "self)")
    contract = must_bind(source).contract
    assert contract.arguments == ()
    assert contract.sizes == {"heads": 2, "head_dim": 6, "d_in": 12}


def test_names_that_say_nothing_are_found_out() -> None:
    init = "self.heads = pieces\ndim = blorp\n" + SEPARATE
    contract = must_bind(make(takes="blorp, pieces", init=init)).contract
    assert {a.name: a.quantity for a in contract.arguments} == {
        "blorp": "d_out",
        "pieces": "heads",
    }


def test_each_way_to_build_a_class_is_another() -> None:
    source = make(
        takes="d_in, d_out, num_heads", init="self.heads = num_heads\ndim = d_out\n" + SEPARATE
    )
    failures: list[str] = []
    ways = list(build_all(*open_class(source, "Own"), failures, iter_suggested))
    shapes = [tuple(info.shape for info in way.tensors.values()) for way in ways]
    assert len(set(zip(shapes, (w.constructor.square for w in ways), strict=True))) == len(ways)
    assert failures == []


def test_what_a_constructor_says_is_kept() -> None:
    source = make(init="assert dim % 100 == 0, 'a hundred'\n" + SEPARATE)
    failures: list[str] = []
    assert list(build_all(*open_class(source, "Own"), failures, iter_suggested)) == []
    assert len(failures) == 1 and failures[0].startswith("AssertionError: a hundred (line ")


@pytest.mark.parametrize("heads", ["heads", "pieces"])
def test_a_width_of_heads_that_is_none_by_default_is_passed(heads: str) -> None:
    """Otherwise each head may be as wide as the tokens, which no quantity says."""
    init = f"""
    each = d_k or dim
    self.heads = {heads}
    self.q, self.k, self.v = (nn.Linear(dim, each * {heads}) for _ in range(3))
    self.out = nn.Linear(each * {heads}, dim)
    """
    contract = must_bind(make(takes=f"dim, {heads}, d_k=None", init=init)).contract
    assert {a.name: a.quantity for a in contract.arguments}["d_k"] == "head_dim"


@pytest.mark.parametrize("option", ["scale", "scaled", "use_norm"])
def test_an_option_with_which_a_class_is_right_is_on(option: str) -> None:
    init = f"self.on = {option}\n{SEPARATE}"
    scores = "s = q @ k.mT / (q.shape[-1] ** 0.5 if self.on else 1)"
    contract = must_bind(
        make(takes=f"dim, heads, {option}=False", init=init, scores=scores)
    ).contract
    assert [a.default for a in contract.arguments if a.name == option] == [True]


def test_an_option_that_leaves_a_class_wrong_stays_off() -> None:
    scores = "s = q @ k.mT * (q.shape[-1] ** 0.5 if self.on else 1)"
    init = f"self.on = scaled\n{SEPARATE}"
    found = bind_source(make(takes="dim, heads, scaled=False", init=init, scores=scores))
    assert isinstance(found, Binding)
    assert [mistake.name for mistake in found.mistakes] == ["no_scale"]
    assert [a.name for a in found.contract.arguments] == ["dim", "heads"]


def test_a_width_beside_a_config_is_that_of_tokens_and_of_all_heads() -> None:
    init = f"self.heads, dim = config.n_head, nx\n{SEPARATE}"
    contract = must_bind(make(takes="nx, config", init=init)).contract
    assert contract.square and not contract.sizes
