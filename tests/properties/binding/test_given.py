"""Arguments of `forward` besides tokens and a mask get what their names and behaviour say."""

import pytest

from headcheck.properties.binding.binding import NotBound
from headcheck.properties.contracts.contract import CONSTANT
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.contracts.contract import Positions as P
from headcheck.properties.terms.call_form import Given
from tests.properties.binding.strangers import (
    CAUSAL,
    PROJECT,
    SCORES,
    SEPARATE,
    bind_source,
    make,
    must_bind,
)

pytestmark = pytest.mark.filterwarnings("ignore")

HALVES = """
def turn(t, cos, sin):
    a, b = t.chunk(2, -1)
    return t * cos + torch.cat((-b, a), -1) * sin
"""
PAIRS = """
def turn(t, cos, sin):
    swapped = torch.stack((-t[..., 1::2], t[..., ::2]), -1).flatten(-2)
    return t * cos + swapped * sin
"""
COMPLEX = """
def turn(t, angles):
    pairs = torch.view_as_complex(t.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * angles).flatten(-2)
"""
NUMBERS = """
def turn(t, table):
    (a, b), (cos, sin) = t.unflatten(-1, (-1, 2)).unbind(-1), table.to(t.dtype).unbind(-1)
    return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
"""
TURNED = "q, k = turn(q, {0}), turn(k, {0})\n" + SCORES
OWN_TABLES = """
angles = position_ids[:, None, :, None] * 1e4 ** -(torch.arange(0, q.shape[-1], 2) / q.shape[-1])
cos, sin = torch.cat((angles, angles), -1).cos(), torch.cat((angles, angles), -1).sin()
"""


@pytest.mark.parametrize(
    ("call", "before", "scores", "positions", "given"),
    [
        ("x, cos, sin", HALVES, TURNED.format("cos, sin"), P.ROTARY,
         {"cos": Given.COSINES_OF_HALVES, "sin": Given.SINES_OF_HALVES}),
        ("x, rope_cos, rope_sin", PAIRS, TURNED.format("rope_cos, rope_sin"), P.ROTARY_NEIGHBOURS,
         {"rope_cos": Given.COSINES_OF_PAIRS, "rope_sin": Given.SINES_OF_PAIRS}),
        ("x, freqs_cis", COMPLEX, TURNED.format("freqs_cis"), P.ROTARY_NEIGHBOURS,
         {"freqs_cis": Given.COMPLEX}),
        ("x, freqs", NUMBERS, TURNED.format("freqs"), P.ROTARY_NEIGHBOURS,
         {"freqs": Given.COMPLEX_PAIRS}),
        ("x, position_embeddings", HALVES, TURNED.format("*position_embeddings"), P.ROTARY,
         {"position_embeddings": Given.BOTH_OF_HALVES}),
        ("x, position_ids", HALVES, OWN_TABLES + TURNED.format("cos, sin"), P.ROTARY,
         {"position_ids": Given.POSITIONS}),
    ],
)  # fmt: skip
def test_tables_and_positions_are_given_as_the_class_uses_them(
    call: str, before: str, scores: str, positions: P, given: dict[str, Given]
) -> None:
    contract = must_bind(make(call=call, before=before, scores=scores)).contract
    assert contract.positions is positions
    assert contract.call_form.given == given


def test_a_cache_that_has_to_be_passed_is_none_and_a_start_is_zero() -> None:
    mask = "assert layer_past is None and start_pos == 0 and not use_cache\n" + CAUSAL
    contract = must_bind(make(call="x, layer_past, start_pos, use_cache", mask=mask)).contract
    assert contract.has(C.CAUSAL)
    assert contract.call_form.given == {
        "layer_past": Given.NONE, "start_pos": Given.ZERO, "use_cache": Given.FALSE,
    }  # fmt: skip


@pytest.mark.parametrize("call", ["x, cos, sin, mask=None", "x, mask, cos, sin"])
def test_a_mask_beside_them_is_passed_by_name(call: str) -> None:
    mask = "if mask is not None:\n    s = s.masked_fill(mask == 0, -torch.inf)"
    source = make(call=call, before=HALVES, scores=TURNED.format("cos, sin"), mask=mask)
    contract = must_bind(source).contract
    assert contract.has(C.MASK) and contract.positions is P.ROTARY
    assert contract.call_form.mask.argument == "mask"


@pytest.mark.whole
def test_a_class_that_turns_the_wrong_way_is_not_taken_for_a_right_one() -> None:
    wrong = TURNED.format("cos, sin").replace("turn(k, cos, sin)", "turn(k, cos, -sin)")
    found = bind_source(make(call="x, cos, sin", before=HALVES, scores=wrong))
    assert isinstance(found, NotBound) or found.mistakes or found.inexact


def test_an_option_that_is_passed_by_name_only_is_on() -> None:
    mask = f"if self.decoder:\n    {CAUSAL}"
    source = make(
        takes="dim, heads, *, decoder", init="self.decoder = decoder\n" + SEPARATE, mask=mask
    )
    assert must_bind(source).contract.has(C.CAUSAL)


def test_a_required_switch_is_off_and_no_rate_of_dropout() -> None:
    normed = f"{PROJECT}\nif self.sharp:\n    q, k = (F.normalize(t, dim=-1) for t in (q, k))"
    source = make(takes="dim, heads, sharp", init=f"{SEPARATE}\nself.sharp = sharp", project=normed)
    contract = must_bind(source).contract
    [sharp] = [each for each in contract.arguments if each.name == "sharp"]
    assert (sharp.quantity, sharp.default) == (CONSTANT, False)
    assert not contract.has(C.DROPOUT)


def test_parameters_that_an_unknown_option_may_need_are_not_judged() -> None:
    source = make(
        call="x, distances=None",
        init=f"{SEPARATE}\nself.slope = nn.Parameter(torch.ones(heads))",
        scores=f"{SCORES}\nif distances is not None:\n    s = s - self.slope[:, None] * distances",
    )
    found = must_bind(source)
    assert "there_are_no_other_parameters" in found.contract.waived
    said = "`slope` is not judged: calls with `distances` may need it"
    assert said in found.remarks
    plain = must_bind(source.replace(", distances=None", "").replace("distances", "None"))
    assert plain.contract.waived == ()
