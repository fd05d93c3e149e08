"""What a match leaves open is settled by calls: results, masks, roles of inputs, and dropout."""

from dataclasses import replace

import pytest

from headcheck.properties.binding.binding import Binding, bind
from headcheck.properties.contracts.contract import CONSTANT, Returns
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.signatures.signature import SignatureParameter
from headcheck.properties.terms.call_form import MaskConvention, Polarity
from tests.forms.bank import open_class
from tests.properties.binding.strangers import (
    CAUSAL,
    FUSED,
    OUT,
    PROJECT,
    SEPARATE,
    THIRDS,
    bind_source,
    make,
    mistaken,
    must_bind,
)

pytestmark = pytest.mark.filterwarnings("ignore")

KEEP, BLOCK, ADDED = Polarity.KEEP, Polarity.BLOCK, Polarity.ADDED


# ------------------------------------------------------------------------------- results


@pytest.mark.parametrize(
    ("result", "places", "returns"),
    [
        ("o", None, Returns.OUTPUT),
        ("o, w", (0, 1), Returns.OUTPUT_AND_WEIGHTS),
        ("w, o", (1, 0), Returns.OUTPUT_AND_WEIGHTS),
        ("o, None", (0,), Returns.OUTPUT),
        ("o, q, w", (0, 2), Returns.OUTPUT_AND_WEIGHTS),
        ("{'last': o, 'maps': w}", (0, 1), Returns.OUTPUT_AND_WEIGHTS),
        ("{'maps': w, 'last': o}", (1, 0), Returns.OUTPUT_AND_WEIGHTS),
    ],
)
def test_results_are_found_wherever_they_are(
    result: str, places: tuple[int, ...] | None, returns: Returns
) -> None:
    contract = must_bind(make(result=result)).contract
    assert contract.returns is returns
    assert contract.has(C.WEIGHTS) is (returns is Returns.OUTPUT_AND_WEIGHTS)
    assert contract.call_form.places == places or len(result) == 1


def test_weights_of_one_head_may_have_no_axis_for_heads() -> None:
    init = "self.heads = 1\n" + SEPARATE
    form = must_bind(make(takes="dim", init=init, result="o, w[:, 0]")).contract.call_form
    assert (form.places, form.one_head) == ((0, 1), True)


def test_a_result_that_is_no_output_and_no_weights_is_not_judged_and_this_is_said() -> None:
    found = must_bind(make(result="o, w.mean(1)"))
    assert found.contract.returns is Returns.OUTPUT
    assert found.remarks == ("only the output is judged, and no other result",)


# --------------------------------------------------------------------------------- masks


@pytest.mark.parametrize(
    ("line", "polarity", "axes"),
    [
        ("s.masked_fill(mask == 0, -torch.inf)", KEEP, None),
        ("s.masked_fill(~mask, -torch.inf)", KEEP, None),
        ("s.masked_fill(mask, -torch.inf)", BLOCK, None),
        ("s + mask", ADDED, None),
        ("s + (1.0 - mask.to(s)) * -1e9", KEEP, None),
        ("s + mask * -1e9", BLOCK, None),
        ("s.masked_fill(mask.expand(len(s), -1, -1, -1) == 0, -1e9)", KEEP, 4),
        ("s.masked_fill(mask.unsqueeze(1) == 0, -1e9)", KEEP, 3),
        ("s.masked_fill(mask.unsqueeze(1), -1e9)", BLOCK, 3),
        ("s + mask[:, None]", ADDED, 3),
        ("s.masked_fill(mask[None, None] == 0, -1e9)", KEEP, 2),
        ("s.masked_fill(mask[None, None], -1e9)", BLOCK, 2),
    ],
)
def test_a_mask_that_blocks_is_told_from_one_that_keeps_in_every_shape(
    line: str, polarity: Polarity, axes: int | None
) -> None:
    mask = f"if mask is not None:\n    s = {line}"
    contract = must_bind(make(call="x, mask=None", mask=mask)).contract
    assert (contract.call_form.mask.polarity, contract.call_form.mask.axes) == (polarity, axes)
    assert contract.has(C.MASK) and not contract.has(C.PADDING)
    assert contract.call_form.inputs == ("x", "mask")
    assert not contract.call_form.mask.required


@pytest.mark.parametrize(
    ("line", "polarity", "axes"),
    [
        ("s.masked_fill(mask[:, None, None, :] == 0, -1e9)", KEEP, 2),
        ("s.masked_fill(mask[:, None, None, :], -1e9)", BLOCK, 2),
        ("s + mask[:, None, None]", ADDED, 2),
    ],
)
def test_a_mask_of_keys_is_one_of_padding(line: str, polarity: Polarity, axes: int) -> None:
    mask = f"if mask is not None:\n    s = {line}"
    contract = must_bind(make(call="x, mask=None", mask=mask)).contract
    form = contract.call_form.mask
    assert (form.polarity, form.axes, form.keys_only) == (polarity, axes, True)
    assert contract.has(C.PADDING) and not contract.has(C.MASK)


@pytest.mark.parametrize(
    ("line", "polarity"),
    [("s.masked_fill(mask == 0, -1e9)", KEEP), ("s + mask", ADDED)],
)
def test_a_mask_may_be_required(line: str, polarity: Polarity) -> None:
    form = must_bind(make(call="x, mask", mask=f"s = {line}")).contract.call_form
    assert (form.mask.polarity, form.mask.required) == (polarity, True)


def test_a_mask_of_queries_for_one_sequence_does_not_pass_for_one_of_a_batch() -> None:
    mask = "if mask is not None:\n    s = s + mask[: s.shape[-2], : s.shape[-1]]"
    form = must_bind(make(call="x, mask=None", mask=mask)).contract.call_form
    assert form.mask == MaskConvention(ADDED, axes=2)


def test_a_mask_that_has_no_effect_is_claimed_so_that_the_claim_fails() -> None:
    contract = must_bind(make(call="x, mask=None")).contract
    assert contract.has(C.MASK)


def test_a_mask_that_changes_nothing_in_a_causal_class_is_claimed_so_that_the_claim_fails() -> None:
    contract = must_bind(make(call="x, mask=None", mask=CAUSAL)).contract
    assert contract.has(C.MASK) and contract.has(C.CAUSAL)


def test_of_two_masks_the_one_that_is_followed_is_judged_and_the_other_is_told_of() -> None:
    mask = "if key_mask is not None:\n    s = s.masked_fill(~key_mask[:, None, None], -torch.inf)"
    found = must_bind(make(call="x, query_mask=None, key_mask=None", mask=mask))
    assert found.contract.has(C.PADDING)
    assert found.contract.call_form.mask.argument == "key_mask"
    assert found.remarks == (
        "the meaning of its argument `query_mask` is not known, and not judged",
    )


def test_a_mask_of_a_class_for_one_sequence_is_followed() -> None:
    project = PROJECT.replace("transpose(1, 2)", "transpose(0, 1)")
    mask = "if mask is not None:\n    s = s.masked_fill(mask == 0, -1e9)"
    out = "o = self.out((w @ v).transpose(0, 1).flatten(1))"
    found = must_bind(make(call="x, mask=None", project=project, mask=mask, out=out)).contract
    assert found.has(C.MASK) and not found.has(C.BATCH)


def test_what_is_no_mask_is_not_judged_and_this_is_said() -> None:
    mask = "if mask is not None:\n    s = s * mask.to(s).sum()"
    found = must_bind(make(call="x, mask=None", mask=mask))
    assert not found.contract.has(C.MASK)
    assert found.remarks == ("the meaning of its argument `mask` is not known, and not judged",)


@pytest.mark.parametrize("causal", ["", CAUSAL], ids=["full", "causal"])
def test_a_mask_with_which_every_call_raises_is_claimed_so_that_the_claim_fails(
    causal: str,
) -> None:
    raises = "if mask is not None:\n    s = s.masked_fill(mask == 0, values=-1e9)"
    assert must_bind(make(call="x, mask=None", mask=f"{causal}\n{raises}")).contract.has(C.MASK)


@pytest.mark.parametrize("own", ["mask.logits", "s.new_ones([[1, 2][mask]])"])
@pytest.mark.parametrize("causal", ["", CAUSAL], ids=["full", "causal"])
def test_a_mask_of_a_kind_that_is_not_known_is_told_of(causal: str, own: str) -> None:
    mask = f"if mask is not None:\n    s = s + {own}"
    found = must_bind(make(call="x, mask=None", mask=f"{causal}\n{mask}"))
    assert found.remarks == ("it takes no mask: every call with its `mask` raises",)
    assert not found.contract.has(C.MASK)
    works = mask.replace(own, "mask")
    remarks = must_bind(make(call="x, mask=None", mask=f"{causal}\n{works}")).remarks
    assert not any("it takes no mask" in each for each in remarks)


def test_a_mask_of_three_axes_without_effect_is_claimed_so_that_the_claim_fails() -> None:
    mask = "if mask is not None:\n    s.masked_fill(mask.unsqueeze(1) == 0, -1e9)"
    form = must_bind(make(call="x, mask=None", mask=mask)).contract.call_form
    assert form.mask.axes == 3


# --------------------------------------------------------------------------------- roles


@pytest.mark.parametrize(
    ("call", "inputs", "roles"),
    [
        ("query, key, value", "query, key, value", ("query", "key", "value")),
        ("values, keys, query", "query, keys, values", ("value", "key", "query")),
        ("a, b, c", "c, a, b", ("key", "value", "query")),
        ("x, memory", "x, memory, memory", ("query", "context")),
        ("memory, x", "x, memory, memory", ("context", "query")),
    ],
)
def test_inputs_are_known_by_what_they_do(call: str, inputs: str, roles: tuple[str, ...]) -> None:
    contract = must_bind(make(call=call, inputs=inputs)).contract
    assert contract.call_form.inputs == roles
    assert contract.call == roles
    assert contract.has(C.CROSS)


@pytest.mark.parametrize(
    ("call", "roles"),
    [("x, memory", ("query", "context")), ("encoder_out, decoder_hidden", ("context", "query"))],
)
def test_the_side_of_the_queries_is_what_the_arguments_are_called(
    call: str, roles: tuple[str, ...]
) -> None:
    """Where the other side's tokens attend, the claim fails."""
    sides = dict(zip(roles, call.split(", "), strict=True))
    exchanged = f"{sides['context']}, {sides['query']}, {sides['query']}"
    found = must_bind(make(call=call, inputs=exchanged))
    assert found.contract.call_form.inputs == roles and found.contract.has(C.CROSS)
    assert f"the tokens of `{sides['query']}` should attend" in str(found.remarks)


@pytest.mark.parametrize("call", ["context, question", "latents, x", "a, b"])
def test_names_that_leave_the_sides_open_accuse_nobody(call: str) -> None:
    first, second = call.split(", ")
    found = must_bind(make(call=call, inputs=f"{first}, {second}, {second}"))
    assert found.contract.call_form.inputs == ("query", "context")
    again = must_bind(make(call=call, inputs=f"{second}, {first}, {first}"))
    assert again.contract.call_form.inputs == ("context", "query")


def test_inputs_that_are_never_read_and_that_names_leave_open_accuse_nobody() -> None:
    # They may be the height and the width of an image, or anything else.
    found = must_bind(make(call="x, H, W"))
    assert not found.contract.has(C.CROSS)
    assert "it is not known what is meant by `H` and `W`, which is not judged" in found.remarks
    assert must_bind(make(call="x, memory")).contract.has(C.CROSS)


BIAS = "s = s if position_bias is None else s + position_bias"
DOC = 'class Own(nn.Module):\n    "The scores are not scaled."\n'


def test_scores_may_be_left_unscaled_if_the_class_says_so() -> None:
    plain = make(scores="s = q @ k.mT")
    assert isinstance(found := bind_source(plain), Binding) and found.mistakes
    biased = make(scores="s = q @ k.mT", call="x, position_bias=None", mask=BIAS)
    for source in (biased, plain.replace("class Own(nn.Module):\n", DOC)):
        said = must_bind(source)
        assert said.contract.scale == 1 and "not divided by the root" in str(said.remarks)


BARE = """
from torch import nn

class Own(nn.Module):
    def forward(self, {inputs}):
        return ({query} @ {key}.mT).softmax(-1) @ {value}
"""


@pytest.mark.parametrize("names", [("query", "memory", "memory"), ("x", "x", "x")])
def test_tokens_may_be_compared_as_they_are(names: tuple[str, str, str]) -> None:
    query, key, value = names
    inputs = ", ".join(dict.fromkeys(names))
    source = BARE.format(inputs=inputs, query=query, key=key, value=value)
    assert must_bind(source).contract.scale == 1


def test_scores_of_ready_queries_and_keys_are_scaled() -> None:
    source = BARE.format(inputs="query, key, value", query="query", key="key", value="value")
    assert mistaken(source) == ["no_scale"]


def test_where_all_sequences_have_to_be_as_long_other_lengths_are_not_claimed() -> None:
    project = "assert x.shape == memory.shape\n" + PROJECT
    source = make(call="x, memory", inputs="x, memory, memory", project=project)
    contract = must_bind(source).contract
    assert contract.call_form.inputs == ("query", "context")
    assert not contract.has(C.CROSS)


def test_a_context_of_another_length_that_breaks_a_call_is_claimed_so_that_the_claim_fails() -> (
    None
):
    wrong = PROJECT.replace("unflatten(-1, (self.heads, -1))", "view(*x.shape[:2], self.heads, -1)")
    assert wrong != PROJECT
    contract = must_bind(make(call="x, memory", inputs="x, memory, memory", project=wrong)).contract
    assert contract.has(C.CROSS)


@pytest.mark.parametrize("wrong", ["", "w = w / w.sum(-2, keepdim=True)"])
def test_a_context_that_is_an_option_is_judged(wrong: str) -> None:
    weights = f"if context is not None:\n    {wrong}" if wrong else ""
    inputs = "x, *[x if context is None else context] * 2"
    contract = must_bind(make(call="x, context=None", inputs=inputs, weights=weights)).contract
    assert contract.call_form.inputs == ("query", "context") and contract.has(C.CROSS)


def test_inputs_that_are_mixed_up_are_claimed_to_be_in_order_so_that_the_claim_fails() -> None:
    source = make(call="query, key, value", inputs="query, value, key")
    contract = must_bind(source).contract
    assert contract.call_form.inputs == ("query", "key", "value")
    assert contract.has(C.CROSS)


# ------------------------------------------------------------------------------- dropout

TAKES = "dim, heads, dropout"
INIT = SEPARATE + "\nself.drop = nn.Dropout(dropout)"


@pytest.mark.parametrize(
    "parts",
    [
        {"weights": "w = self.drop(w)"},
        {"scores": "s = self.drop(q @ k.mT) / q.shape[-1] ** 0.5"},
        {"scores": "q = self.drop(q)\ns = q @ k.mT / q.shape[-1] ** 0.5"},
        {},
    ],
    ids=["right: on the weights", "on the scores", "on the queries", "never"],
)
def test_dropout_is_judged_where_it_is_right_or_certainly_wrong(parts: dict[str, str]) -> None:
    found = must_bind(make(takes=TAKES, init=INIT, **parts))
    assert found.contract.has(C.DROPOUT)
    assert found.remarks == ()


@pytest.mark.parametrize(
    "weights", ["w = self.drop(w)", "w = F.dropout(s, self.drop.p, self.training).softmax(-1)"]
)
def test_of_several_rates_that_of_the_weights_is_judged(weights: str) -> None:
    found = must_bind(
        make(
            takes="dim, heads, attn_pdrop, resid_pdrop",
            init=SEPARATE
            + "\nself.drop, self.rest = nn.Dropout(attn_pdrop), nn.Dropout(resid_pdrop)",
            weights=weights,
            result="self.rest(o)",
        )
    )
    assert found.contract.has(C.DROPOUT)
    assert found.remarks == (
        "of its rates only `attn_pdrop` is judged: the others drop other things",
    )
    quantities = {a.name: a.quantity for a in found.contract.arguments}
    assert (quantities["attn_pdrop"], quantities["resid_pdrop"]) == ("dropout", CONSTANT)


def test_dropout_that_shows_the_future_is_judged_under_any_name() -> None:
    source = make(
        takes="dim, heads, attn_p=0.0, proj_p=0.0",
        init=SEPARATE + "\nself.drop, self.rest = nn.Dropout(attn_p), nn.Dropout(proj_p)",
        mask="s = self.drop(s.masked_fill(torch.ones_like(s).triu(1).bool(), -1e9))",
        result="self.rest(o)",
    )
    assert must_bind(source).contract.has(C.DROPOUT)


def test_dropout_on_the_output_alone_is_not_judged_and_this_is_said() -> None:
    found = must_bind(make(takes=TAKES, init=INIT, out=OUT + "\no = self.drop(o)"))
    assert not found.contract.has(C.DROPOUT)
    assert found.remarks == ("its dropout is not judged: where it acts is not known",)
    [rate] = [a for a in found.contract.arguments if a.name == "dropout"]
    assert (rate.quantity, rate.default) == ("constant", 0.0)


# --------------------------------------------------------------------------------- sizes


def test_one_head_is_left_out_where_it_is_a_case_apart() -> None:
    init = SEPARATE + "\nif heads == 1:\n    self.out = nn.Identity()"
    contract = must_bind(make(init=init)).contract
    assert str(contract.size_rules) == "heads>=2"
    assert must_bind(make()).contract.size_rules is None


# -------------------------------------------------------------------------------- intent


def test_what_is_called_causal_is_meant_to_hide_the_future() -> None:
    assert must_bind(make(name="CausalOwn"), "CausalOwn").contract.has(C.CAUSAL)
    assert must_bind(make(name="CausalOwn", mask=CAUSAL), "CausalOwn").contract.has(C.CAUSAL)
    assert must_bind(make()).contract.has(C.FULL)


# -------------------------------------------------------------------------------- biases


BIASED = FUSED.replace("3 * dim)", "3 * dim, bias={})")


@pytest.mark.parametrize(
    ("argument", "given", "known"),
    [
        ("qkv_bias=False", "qkv_bias", True),
        ("bias=False", "bias", True),
        ("qkv_bias=True", "qkv_bias", False),
        ("qkv_bias=False", "False", True),  # it should add them
    ],
)
def test_an_option_of_biases_is_recognised(argument: str, given: str, known: bool) -> None:
    source = make(takes=f"dim, heads, {argument}", init=BIASED.format(given), project=THIRDS)
    contract = must_bind(source).contract
    assert contract.has(C.BIAS_OPTION) is known
    stored = {name for mapping in contract.mappings for name in mapping.holds}
    assert ({"b_q", "b_k", "b_v"} <= stored) is (known or given == "qkv_bias")


def test_an_option_that_changes_more_than_biases_is_left_out() -> None:
    init = BIASED.format("bias") + "\nself.gain = 2.0 if bias else 1.0"
    body = THIRDS + "\nv = v * self.gain"
    source = make(takes="dim, heads, bias=False", init=init, project=body)
    assert not must_bind(source).contract.has(C.BIAS_OPTION)


# ------------------------------------------------------------------------ fields of configs


def test_a_window_may_be_a_field_of_a_config() -> None:
    source = make(
        takes="config",
        init="dim = config.d_model\n"
        "self.heads, self.window = config.n_heads, config.sliding_window\n" + SEPARATE,
        mask="at = torch.arange(s.shape[-1])\nfar = at[:, None] - at\nhidden = far < 0\n"
        "if self.window is not None:\n    hidden = hidden | (far >= self.window)\n"
        "s = s.masked_fill(hidden, -torch.inf)",
    )
    subject, signature = open_class(source, "Own")
    field = SignatureParameter("sliding_window", True, None, by_name=True)
    found = bind(subject, replace(signature, options=(field,)))
    assert isinstance(found, Binding) and found.contract.has(C.WINDOW)
    [config] = found.contract.arguments
    assert {f.name: f.quantity for f in config.fields}["sliding_window"] == "window"
