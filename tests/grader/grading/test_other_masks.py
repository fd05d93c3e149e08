"""Masks that a class takes besides the first one, and masks that are not quite followed."""

import pytest

from tests.grader.conftest import GradeText
from tests.properties.binding.strangers import FUSED, THIRDS, make

MASKED = "masked_fill(attn_mask, float('-inf'))"
FIRST = f"if attn_mask is not None:\n    s = s.{MASKED}"
SECOND = """
if key_padding_mask is not None:
    s = s.masked_fill(key_padding_mask[:, None, None, :], float('-inf'))
"""
ALL_MASKS = "key_padding_mask=None, attn_mask=None"


def write(mask: str = FIRST, masks: str = "attn_mask=None", **parts: str) -> str:
    """The source of a class that takes masks beside queries, keys and values."""
    takes = "query, key, value"
    return make(name="Blend", call=f"{takes}, {masks}", inputs=takes, mask=mask, **parts)


CLASS, ONE_MASK = write(FIRST + SECOND, ALL_MASKS), write()


def test_both_masks_of_a_right_class_are_judged_and_said(grade_text: GradeText) -> None:
    record = grade_text(CLASS)
    assert (record.status, record.name) == ("passed", "Blend")
    told = [note.message for note in record.notes]
    assert "its masks are judged one at a time: `attn_mask` by itself, too" in told


@pytest.mark.parametrize("source", [CLASS, ONE_MASK], ids=["the second mask", "the only mask"])
@pytest.mark.parametrize(
    ("wrong", "mistakes"),
    [
        ("masked_fill(attn_mask, -10.0)", ["filled_with_small_number"]),
        ("masked_fill(attn_mask.mT, float('-inf'))", []),
    ],
)
def test_a_mask_that_is_not_followed_is_a_failed_claim(
    grade_text: GradeText, source: str, wrong: str, mistakes: list[str]
) -> None:
    record = grade_text(source.replace(MASKED, wrong))
    assert record.status != "passed"
    assert [found.name for found in record.diagnosis] == mistakes or not mistakes
    assert record.place is not None
    line = 1 + source[: source.index(MASKED)].count("\n")
    assert line in [each.line for each in record.place.lines]


def test_what_is_said_of_one_mask_says_nothing_of_another(grade_text: GradeText) -> None:
    """Once `attn_mask`, which is added, was judged by "True where padding"."""
    said = '        """key_padding_mask: (b, s), True where padding."""\n        inputs ='
    source = CLASS.replace("        inputs =", said).replace(MASKED, "add(attn_mask)")
    record = grade_text(source)
    assert record.status == "passed", [p.name for p in record.properties if p.status != "passed"]


def test_a_width_has_to_be_a_multiple_of_the_groups_of_a_norm(grade_text: GradeText) -> None:
    source = ONE_MASK.replace(
        "        super().__init__()\n",
        "        super().__init__()\n"
        '        if dim % 8:\n            raise ValueError("a multiple of 8 is wanted")\n',
    )
    assert grade_text(source).status == "passed"


def test_a_mask_after_the_softmax_is_named_though_the_weights_are_returned(
    grade_text: GradeText,
) -> None:
    hide = "if attn_mask is not None:\n    w = w.masked_fill(attn_mask, 0.0)"
    record = grade_text(write("", weights=hide, result="o, w"))
    assert [found.name for found in record.diagnosis] == ["masked_after_softmax"]


def test_masks_of_heads_and_of_what_is_not_given_are_no_masks_of_keys(
    grade_text: GradeText,
) -> None:
    masks = f"{ALL_MASKS}, head_mask=None, memory_mask=None"
    record = grade_text(
        write(FIRST + SECOND, masks, weights="w = w if head_mask is None else w * head_mask")
    )
    assert record.status == "passed"
    told = [note.message for note in record.notes]
    for name in ("`memory_mask`", "`head_mask`"):
        assert any(name in text and "not judged" in text for text in told)


def test_a_mask_of_an_optional_context_is_not_asked_of_calls_without_one(
    grade_text: GradeText,
) -> None:
    """Once it was said to have no effect."""
    masks = f"{ALL_MASKS}, context=None, context_mask=None"
    given = "w = attn_mask if context_mask else w"
    record = grade_text(write(FIRST + SECOND, masks, weights=given))
    assert record.status == "passed"
    told = [note.message for note in record.notes]
    assert any("`context` and `context_mask` of its calls keep" in text for text in told)


BIASED = write("s = s + score_bias", "score_bias")
SCALE = " / q.shape[-1] ** 0.5"


def test_scores_that_are_given_a_bias_need_no_scale(grade_text: GradeText) -> None:
    record = grade_text(BIASED.replace(SCALE, ""))
    assert record.status == "passed", [p.name for p in record.properties if p.status != "passed"]
    assert any("if they should be, this is a mistake" in note.message for note in record.notes)


WRONGLY_SCALED = [(BIASED, " / q.shape[-1]"), (CLASS, "")]


@pytest.mark.sampled(("source", "scale"), WRONGLY_SCALED, WRONGLY_SCALED[:1])
def test_without_a_bias_they_need_one_and_with_it_no_other(
    grade_text: GradeText, source: str, scale: str
) -> None:
    record = grade_text(source.replace(SCALE, scale))
    assert record.status == "failed"
    assert record.score < 0.6 * record.max_score


SAID = ONE_MASK.replace(
    "attn_mask=None):\n", 'attn_mask=None):\n        """attn_mask: 1 = token, 0 = padding"""\n'
)


@pytest.mark.parametrize(
    ("hidden", "status"),
    [("attn_mask == 0", "passed"), ("~attn_mask", "passed"), ("(~attn_mask).bool()", "failed")],
)
def test_integers_of_which_a_class_speaks_may_be_refused_but_not_misread(
    grade_text: GradeText, hidden: str, status: str
) -> None:
    assert SAID != ONE_MASK
    source = SAID.replace(MASKED, f"masked_fill({hidden}, float('-inf'))")
    assert grade_text(source).status == status


TOGETHER = """
masks = [] if attn_mask is None else [attn_mask]
if key_padding_mask is not None:
    masks.append(key_padding_mask[:, None, None, :].expand(len(s), 1, s.shape[2], -1))
for number in range(len(masks) > 0):
    hidden = masks[0] JOINED masks[-1]
    s = s.masked_fill(hidden, float("-inf"))
"""


@pytest.mark.whole
def test_masks_that_hide_only_together_hide_nothing_alone(grade_text: GradeText) -> None:
    """Each mask is right if it is the only one."""
    source = write(TOGETHER, ALL_MASKS)
    assert grade_text(source.replace("JOINED", "|")).status == "passed"
    assert grade_text(source.replace("JOINED", "&")).status == "failed"


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ("pass", "The output"),  # a mask that is required has no effect
        ("s = s.masked_fill(attn_mask == 0, float('inf'))", "NaN"),
        ("s = s.masked_fill(~mask, float('-inf'))", "name 'mask' is not defined"),
    ],
)
def test_a_mask_that_does_nothing_or_breaks_is_a_failed_claim(
    grade_text: GradeText, step: str, told: str
) -> None:
    given = "attn_mask" if step == "pass" else "attn_mask=None"
    record = grade_text(write(f"if attn_mask is not None:\n    {step}", given))
    assert record.status in ("failed", "crashed")
    assert any(told in each.message for each in record.properties)


ADDED = """
if attn_mask is not None and key_padding_mask is not None:
    attn_mask = attn_mask + key_padding_mask
elif attn_mask is None:
    attn_mask = key_padding_mask
y = F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask)
"""
OF_KERNEL = {"scores": "", "out": "o = self.out(y.transpose(1, 2).flatten(2))"}


@pytest.mark.parametrize(("joined", "status"), [("attn_mask + ", "passed"), ("", "failed")])
def test_masks_that_a_kernel_takes_may_both_be_added(
    grade_text: GradeText, joined: str, status: str
) -> None:
    steps = ADDED.replace("attn_mask + key", f"{joined}key")
    source = write("", ALL_MASKS, softmax=steps, **OF_KERNEL)
    assert grade_text(source).status == status


LENGTHS = make(
    name="OverLengths",
    call="x, lengths=None",
    mask="""
t = x.shape[1]
shown = torch.ones(t, t, dtype=torch.bool).tril()[None]
if lengths is not None:
    shown = shown & (torch.arange(t)[None] < lengths[:, None])[:, None]
s = s.masked_fill(~shown[:, None], float("-inf"))
""",
)


def test_lengths_that_causal_attention_misreads_fail(grade_text: GradeText) -> None:
    assert grade_text(LENGTHS).status == "passed"
    record = grade_text(LENGTHS.replace("shown & (", "shown | ("))
    assert record.status == "failed"
    assert "how many of the first keys may be attended to" in str(record.notes)


ZEROED = (
    LENGTHS.replace("lengths=None", "lengths")
    .replace(".tril()", "")
    .replace("flatten(2))", "flatten(2)) * (torch.arange(t) < lengths[:, None])[..., None]")
)


def test_outputs_of_padding_may_be_zero(grade_text: GradeText) -> None:
    record = grade_text(ZEROED)
    assert record.status == "passed"
    assert "followed, but for what padding gives" in str(record.notes)
    assert grade_text(ZEROED.replace("< lengths[", "<= lengths[")).status != "passed"


def test_a_token_may_see_itself(grade_text: GradeText) -> None:
    seen = "attn_mask & ~torch.eye(query.shape[1], dtype=torch.bool)"
    record = grade_text(ONE_MASK.replace(MASKED, MASKED.replace("attn_mask", seen)))
    assert record.status == "passed"
    assert "a token sees itself is not judged" in str(record.notes)


def test_a_comment_says_that_a_mask_holds_numbers(grade_text: GradeText) -> None:
    comment = "def forward(self, query, key, value, attn_mask=None):\n        # {}"
    masked = ONE_MASK.replace("def forward(self, query, key, value, attn_mask=None):", comment)
    wrong = masked.replace(MASKED, "masked_fill((~attn_mask).bool(), float('-inf'))")
    assert grade_text(wrong.format("no mask of heads")).status == "passed"
    said = "attn_mask: LongTensor, 1 for keys to attend to, 0 for others"
    record = grade_text(wrong.format(said))
    assert record.status == "failed"
    assert "its mask has numbers, as the class says" in str(record.notes)


IN_ROWS = (
    LENGTHS.replace("lengths=None", "key_mask=None")
    .replace("if lengths is not None", "if key_mask is not None")
    .replace("(torch.arange(t)[None] < lengths[:, None])[:, None]", "key_mask[:, None]")
)


@pytest.mark.parametrize(
    ("old", "new", "status"),
    [
        pytest.param("", "", "passed", marks=pytest.mark.whole),
        ("& key_mask[:, None]", "& (key_mask[:, None] | torch.eye(t).bool())", "passed"),
        ("& key_mask[:, None]", "& (key_mask[:, None] | key_mask[:, :, None])", "failed"),
    ],
    ids=["hidden from itself, too", "seen by itself", "hidden from padding alone"],
)
def test_what_padding_gives_is_free(old: str, new: str, status: str, grade_text: GradeText) -> None:
    assert old in IN_ROWS
    assert grade_text(IN_ROWS.replace(old, new)).status == status


def test_a_name_that_only_masks_need_is_told(grade_text: GradeText) -> None:
    hide = "if mask is not None:\n    s = s.masked_fill(mask.bool(), -np.inf)"
    source = make(name="Attention", call="x, mask=None", mask=hide)
    record = grade_text(source)
    assert record.status != "passed" and "`np`" in str(record.properties)
    assert grade_text("import numpy as np" + source).status == "passed"


CALLER = make(
    name="CausalAttention",
    init=FUSED,
    call="x, attn_mask",
    project=THIRDS + "alone = attn_mask is None",
    softmax="y = F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask, is_causal=alone)",
    **OF_KERNEL,
)


def test_who_must_pass_a_mask_says_what_it_hides(grade_text: GradeText) -> None:
    """Once such a class was said to show later tokens, since its name says that it is causal."""
    assert grade_text(CALLER).status == "passed"
    open_to_all = CALLER.replace("is_causal=alone", "is_causal=False").replace(
        "mask):", "mask=None):"
    )
    assert grade_text(open_to_all).status == "failed"


TOKENS_FIRST = make(
    name="Attention",
    call="h, attn_mask=None",
    inputs="h, h, h",
    project="q, k, v = (f(h).unflatten(-1, (self.heads, -1)) for f in (self.q, self.k, self.v))",
    scores="s = torch.einsum('ibnd,jbnd->ijbn', q, k) / q.shape[-1] ** 0.5",
    mask="if attn_mask is not None and attn_mask.dim() == 3:\n"
    "    s = s.masked_fill(attn_mask[..., None], -float('inf'))",
    softmax="w = s.softmax(1)",
    out="o = self.out(torch.einsum('ijbn,jbnd->ibnd', w, v).flatten(2))",
)


def test_masks_of_another_order_of_axes_are_not_said_to_be_ignored(grade_text: GradeText) -> None:
    assert grade_text(TOKENS_FIRST).status == "passed"
