"""The numbers are right: they equal the equation, a second computation of it, and torch's own."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from properties import comparison
from properties.case import Content, MaskForm
from properties.cases.case_transforms import at_least, both, with_values
from properties.contract import Trait
from properties.families.contract import FORM
from properties.families.purity import evaluation_is_repeatable
from properties.harness.harness import Trial
from properties.oracle import scale_of
from properties.property import Claims, Group
from properties.subject import How
from reference import Parameters, online_multi_head_attention

claims = Claims(Group.VALUES, FORM)
T = Trait


@claims(
    T.ATTENTION,
    T.TOKENS,
    on=both(
        at_least(tokens=3),
        with_values(sharpness=1, mask_form=MaskForm.NONE, content=Content.NORMAL),
    ),
    after=(evaluation_is_repeatable,),
    limit=3,
    hint="is every one of queries, keys and values used on the way to the output?",
)
def the_output_depends_on_queries_keys_and_values(trial: Trial) -> None:
    """The output depends on the queries, on the keys and on the values of this input."""
    if not trial.contract.has(T.PROJECTED):
        _every_token_asks_for_itself(trial)
        return
    base = trial.run(parameters=trial.parameters)[0]
    for name, layer in (("W_v", "values"), ("W_q", "queries"), ("W_k", "keys")):
        changed = _with(trial.parameters, name, -2 * getattr(trial.parameters, name))
        moved = trial.run(parameters=changed)[0] - base
        allowed = trial.allowed + trial.expect(parameters=changed).allowed[0]
        comparison.differs(moved, allowed, f"other {layer} give another output")


def _every_token_asks_for_itself(trial: Trial) -> None:
    # Small tokens have nearly equal weights, so that none is too small to see.
    before = 0.1 * trial.x
    output, allowed = trial.run(before, how=How())[0], trial.expect(before).allowed[0]
    unlike = output[:, -1] - output[:, 0]
    comparison.differs(
        unlike, allowed[:, -1] + allowed[:, 0], "tokens that differ receive different outputs"
    )
    after = before.clone()
    after[:, 0] = -2 * after[:, 0]
    moved = (trial.run(after, how=How())[0] - output)[:, -1]
    limit = (allowed + trial.expect(after).allowed[0])[:, -1]
    comparison.differs(moved, limit, "another first token changes what the last one receives")


def _with(parameters: Parameters, name: str, value: Tensor) -> Parameters:
    return Parameters(**{**dict(parameters.items()), name: value})


@claims(hint="work through a small case by hand, step by step, beside your own code")
def it_equals_the_equation(trial: Trial) -> None:
    """The output equals the equation of the statement, computed in float64."""
    trial.must_match(trial.answer, trial.expected)


RIGHT = (it_equals_the_equation,)


GUARDS = "compares with an answer computed otherwise, and so guards the oracle itself"


@claims(T.ATTENTION, T.TOKENS, after=RIGHT, echo=GUARDS)
def it_equals_the_streaming_computation(trial: Trial) -> None:
    """The output equals attention computed one key at a time (online softmax)."""
    visible = trial.may_attend(trial.case.tokens, trial.mask)
    streamed = online_multi_head_attention(
        trial.x, _usually_scaled(trial), trial.case.heads, visible, block=1
    )
    trial.must_equal(trial.output, streamed, trial.allowed)


def _usually_scaled(trial: Trial) -> Parameters:
    """Parameters with which a scale of 1/√head_dim gives what the contract's own scale gives."""
    if trial.contract.scale is None:
        return trial.parameters
    factor = trial.contract.scale * math.sqrt(trial.case.head_dim)
    present = dict(trial.parameters.items())
    return Parameters(**{**present, **{n: factor * present[n] for n in present if n[-1] == "q"}})


@claims(T.ATTENTION, T.TOKENS, after=RIGHT, echo=GUARDS)
def it_equals_torch_s_attention(trial: Trial) -> None:
    """The output equals that of torch.nn.functional.scaled_dot_product_attention."""
    exact = trial.expected.exact
    visible = trial.may_attend(trial.case.tokens, trial.mask)
    attended = F.scaled_dot_product_attention(
        exact.query,
        exact.key,
        exact.value,
        attn_mask=visible,
        scale=scale_of(trial.contract, trial.case),
    )
    merged = attended.transpose(-2, -3).flatten(-2)
    parameters = trial.parameters
    if parameters.W_o is not None:
        merged = F.linear(merged, parameters.W_o, parameters.b_o)
    trial.must_equal(trial.output, merged, trial.allowed)


@claims(
    T.OUTPUT_PROJECTION,
    T.MODULE,
    after=RIGHT,
    limit=4,
    on=lambda case: case if case.d_in == case.d_out else with_values(d_in=case.d_out)(case),
    echo=GUARDS,
)
def it_equals_torch_s_multi_head_attention(trial: Trial) -> None:
    """With the same weights the output equals that of torch.nn.MultiheadAttention."""
    theirs = _torch_module(_usually_scaled(trial), trial.case.d_out, trial.case.heads)
    visible = trial.may_attend(trial.case.tokens, trial.mask)
    with torch.no_grad():
        blocked = None
        if visible is not None:
            b, h, t = trial.x.shape[0], trial.case.heads, trial.case.tokens
            blocked = ~visible.expand(b, h, t, t).flatten(0, 1)
        output = theirs(trial.x, trial.x, trial.x, attn_mask=blocked, need_weights=False)[0]
    trial.must_equal(trial.output, output, trial.allowed)


def _torch_module(parameters: Parameters, width: int, heads: int) -> nn.MultiheadAttention:
    p = parameters
    theirs = nn.MultiheadAttention(width, heads, batch_first=True, dtype=torch.float64)
    zero = torch.zeros(width, dtype=torch.float64)
    state = {
        "in_proj_weight": torch.cat([p.W_q, p.W_k, p.W_v]),
        "in_proj_bias": torch.cat([zero if b is None else b for b in (p.b_q, p.b_k, p.b_v)]),
        "out_proj.weight": torch.eye(width) if p.W_o is None else p.W_o,
        "out_proj.bias": zero if p.b_o is None else p.b_o,
    }
    theirs.load_state_dict(state)
    return theirs.eval()


@claims(
    T.WIDTHS,
    on=both(at_least(tokens=160, heads=2), with_values(batch=2)),
    after=RIGHT,
    limit=1,
    hint="is there a size in the code that small inputs do not reach?",
)
def a_long_sequence_is_right_too(trial: Trial) -> None:
    """A hundred and sixty tokens are attended as rightly as seven."""
    trial.must_match(trial.answer, trial.expected)


@claims(
    T.WIDTHS,
    T.HEADS,
    on=both(at_least(tokens=3, heads=12, head_dim=7, batch=9), with_values(sharpness=2)),
    after=RIGHT,
    limit=1,
    hint="is there a number of heads or a width in the code that small modules do not reach?",
)
def many_heads_are_right_too(trial: Trial) -> None:
    """Twelve heads of an odd width are as right as two of an even one."""
    trial.must_match(trial.answer, trial.expected)


@claims(
    T.WIDTHS,
    on=both(at_least(tokens=3, d_in=96, head_dim=64), with_values(sharpness=2)),
    after=RIGHT,
    limit=1,
    hint="is there a width in the code that small modules do not reach?",
)
def wide_heads_are_right_too(trial: Trial) -> None:
    """Heads of 64 dimensions are as right as heads of three."""
    trial.must_match(trial.answer, trial.expected)


ALL = (
    the_output_depends_on_queries_keys_and_values,
    it_equals_the_equation,
    it_equals_the_streaming_computation,
    it_equals_torch_s_attention,
    it_equals_torch_s_multi_head_attention,
    a_long_sequence_is_right_too,
    many_heads_are_right_too,
    wide_heads_are_right_too,
)
