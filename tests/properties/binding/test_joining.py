"""A class may append the tokens of its queries to the context that it is given."""

import textwrap

import pytest

from headcheck.properties.binding.binding import Binding
from headcheck.properties.contracts.contract import Capability as C
from headcheck.properties.terms.call_form import TokenAxes
from tests.properties.binding.strangers import bind_source, make, must_bind

pytestmark = pytest.mark.filterwarnings("ignore")

JOIN = """
def join(context, x):
    return torch.cat([context, x], dim=-2)
"""
JOINED = "{0}, join({1}, {0}), join({1}, {0})"


@pytest.mark.parametrize("call", ["x, latents", "latents, media"])
def test_queries_may_see_their_own_tokens_beside_a_context(call: str) -> None:
    context, asking = ("x", "latents") if call[0] == "x" else ("media", "latents")
    source = make(call=call, inputs=JOINED.format(asking, context), before=JOIN)
    found = must_bind(source)
    wanted = ("context", "query") if context == "x" else ("query", "context")
    assert found.contract.call_form.inputs == wanted
    assert found.contract.call_form.joins_queries and found.contract.has(C.CROSS)


def test_frames_of_a_batch_may_have_an_axis() -> None:
    project = """
    b, f, n, w = inputs[0].shape
    q, k, v = (
        layer(t).flatten(0, 1).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        for layer, t in zip((self.q, self.k, self.v), inputs)
    )
    """
    out = "o = self.out((w @ v).transpose(1, 2).flatten(2)).unflatten(0, (b, f))"
    out = out.replace("(w @ v)", "(p @ v)")
    source = make(
        call="x, latents",
        inputs=JOINED.format("latents", "x"),
        before=JOIN,
        project=textwrap.dedent(project),
        weights="p = w",
        out=out,
    )
    form = must_bind(source).contract.call_form
    assert form.axes is TokenAxes.FRAMES and form.joins_queries


def test_a_mask_beside_joined_tokens_is_no_part_of_the_contract() -> None:
    mask = textwrap.dedent("""
    if mask is not None:
        shown = F.pad(mask, (0, latents.shape[1]), value=True)
        s = s.masked_fill(~shown[:, None, None], -torch.inf)
    """)
    joined = JOINED.format("latents", "x")
    source = make(call="x, latents, mask=None", inputs=joined, before=JOIN, mask=mask)
    found = must_bind(source)
    assert not found.contract.has(C.PADDING)


def test_what_is_wrong_beside_joined_tokens_is_named() -> None:
    inputs = JOINED.format("latents", "x")
    source = make(call="x, latents", inputs=inputs, before=JOIN, scores="s = q @ k.mT")
    found = bind_source(source)
    assert isinstance(found, Binding)
    assert [mistake.name for mistake in found.mistakes] == ["no_scale"]
    assert found.contract.call_form.joins_queries
