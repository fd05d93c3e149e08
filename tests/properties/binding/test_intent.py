"""What a class says of itself is what it is judged by: its docstring, and names of arguments."""

import pytest

from headcheck.properties.binding.intent import find_stated_polarity, quote_causality
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.signatures.signature import Signature, SignatureParameter
from headcheck.properties.terms.call_form import Given, Polarity
from tests.properties.binding.strangers import CAUSAL, SEPARATE, make, must_bind

pytestmark = pytest.mark.filterwarnings("ignore")

KEEPS = "if {0} is not None:\n    s = s.masked_fill({0} == 0, -torch.inf)"
BLOCKS = "if {0} is not None:\n    s = s.masked_fill({0}, -torch.inf)"


def signature(doc: str, *call: str) -> Signature:
    return Signature("Own", (), tuple(SignatureParameter(name) for name in ("x", *call)), doc=doc)


def document(doc: str, source: str) -> str:
    return source.replace("class Own(nn.Module):", f'class Own(nn.Module):\n    """{doc}"""\n')


@pytest.mark.parametrize(
    ("doc", "said"),
    [
        ("Causal self-attention.", "Causal self-attention"),
        ("Multi-head attention. Autoregressive: a token sees the past", "Autoregressive: a token "
         "sees the past"),
        ("Attention, causal if a mask is given.", ""),
        ("Non-causal attention.", ""),
        ("Attention. Can be causal.", ""),
        ("Attention without causal masks", ""),
        ("Self-attention.", ""),
    ],
)  # fmt: skip
def test_a_sentence_states_causality_unless_it_is_conditional(doc: str, said: str) -> None:
    assert quote_causality(signature(doc)) == said
    assert quote_causality(signature(doc, "mask")) == ""


@pytest.mark.parametrize(
    ("doc", "polarity"),
    [
        ("mask: True where attention is NOT allowed", Polarity.BLOCK),
        ("mask: bool tensor (True = position is masked out)", Polarity.BLOCK),
        ("the mask has ones for padding", Polarity.BLOCK),
        ("mask: True = keep", Polarity.KEEP),
        ("mask: 1 for tokens to attend to, 0 for padding", Polarity.KEEP),
        ("mask: 1 for tokens and 0 for padding", Polarity.KEEP),
        ("mask: False on real tokens and True on padding", Polarity.BLOCK),
        ("positions where the mask is 0 are ignored", Polarity.KEEP),
        ("mask: (1, tokens, tokens)", None),
        ("True for all who may attend", None),
        ("mask: True = keep. mask: 1 is ignored", None),
    ],
)
def test_a_docstring_states_what_entries_of_a_mask_mean(
    doc: str, polarity: Polarity | None
) -> None:
    found = find_stated_polarity(signature(doc, "mask"), "mask")
    assert (found and found[0]) == polarity


@pytest.mark.parametrize(
    ("name", "polarity"),
    [
        ("keep", Polarity.KEEP), ("valid_mask", Polarity.KEEP), ("blocked", Polarity.BLOCK),
        ("mask", None), ("key_padding_mask", None), ("valid_lens", None),
    ],
)  # fmt: skip
def test_a_name_may_state_it(name: str, polarity: Polarity | None) -> None:
    found = find_stated_polarity(signature("", name), name)
    assert (found and found[0]) == polarity


@pytest.mark.parametrize(
    ("doc", "name", "mask", "wanted"),
    [
        ("mask: True where attention is not allowed", "mask", KEEPS, Polarity.BLOCK),
        ("mask: True = keep", "mask", BLOCKS, Polarity.KEEP),
        ("", "keep", BLOCKS, Polarity.KEEP),
    ],
)
def test_a_mask_against_the_classs_own_words_is_claimed_by_the_words(
    doc: str, name: str, mask: str, wanted: Polarity
) -> None:
    source = document(doc, make(call=f"x, {name}=None", mask=mask.format(name)))
    found = must_bind(source)
    assert found.contract.call_form.mask.polarity is wanted
    assert any("what the class says of it" in remark for remark in found.remarks)
    other = {KEEPS: BLOCKS, BLOCKS: KEEPS}[mask]
    right = must_bind(document(doc, make(call=f"x, {name}=None", mask=other.format(name))))
    assert right.contract.call_form.mask.polarity is wanted and right.remarks == ()


@pytest.mark.parametrize(
    ("doc", "wanted"),
    [
        ("mask: 1 for tokens and 0 for padding", Polarity.KEEP),
        ("mask: from the tokenizer, ones mark real tokens", Polarity.KEEP),
        ("mask: 0 for padding, or numbers that are added: 1 keeps", Polarity.ADDED),
        ("mask: 0 where a key is visible, -inf elsewhere", Polarity.ADDED),
        ("mask: 0 for visible keys", Polarity.ADDED),
    ],
)
def test_a_mask_of_ones_is_not_added(doc: str, wanted: Polarity) -> None:
    source = make(call="x, mask=None", mask="s = s if mask is None else s + mask.to(s.dtype)")
    assert must_bind(document(doc, source)).contract.call_form.mask.polarity is wanted


def test_a_class_that_calls_itself_causal_is_judged_as_causal() -> None:
    found = must_bind(document("Causal self-attention.", make()))
    assert found.contract.has(C.CAUSAL)
    assert found.remarks == (
        "later tokens should be hidden, as the class says: “Causal self-attention”",
    )
    assert must_bind(document("Causal self-attention.", make(mask=CAUSAL))).remarks == ()


def test_an_option_that_is_on_and_changes_nothing_is_claimed() -> None:
    assert must_bind(make(call="x, is_causal=True")).contract.has(C.CAUSAL)


def test_an_option_that_is_off_is_judged_where_it_is_on() -> None:
    mask = "if is_causal:\n    " + CAUSAL
    contract = must_bind(make(call="x, is_causal=False", mask=mask)).contract
    assert contract.has(C.CAUSAL)
    assert contract.call_form.given == {"is_causal": Given.TRUE}


WINDOWED = """
def make_mask(n, window=None):
    \"\"\"Boolean mask. A token sees `window` tokens.\"\"\"
    far = torch.arange(n)[:, None] - torch.arange(n)
    seen = far >= 0
    return seen if window is None else seen & (far < window + {longer})
"""


def make_windowed(longer: int = 0) -> str:
    return make(
        takes="dim, heads, window=None",
        init=SEPARATE + "\nself.window = window",
        mask="s = s.masked_fill(~make_mask(s.shape[-1], self.window), -torch.inf)",
        before=WINDOWED.format(longer=longer),
    )


def test_a_window_that_is_none_by_default_is_judged_too() -> None:
    found = must_bind(make_windowed())
    assert found.contract.has(C.WINDOW) and not found.remarks


def test_a_window_of_another_width_is_left_out() -> None:
    found = must_bind(make_windowed(longer=1))
    assert not found.contract.has(C.WINDOW) and not found.remarks
