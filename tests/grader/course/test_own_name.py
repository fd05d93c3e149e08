"""Outputs that spell our name in other letters."""

import pytest

from headcheck.grader.course.export.own_name import is_named

SPELLINGS = [
    "headcheck",
    "HEADCHECK",
    "Feedback-by-HeadCheck",
    "ｈｅａｄｃｈｅｃｋ",
    "hеadсheck",
    "НЕАDСНЕСК",
    "h3adch3ck",
    "he4dcheck",
    "head\u200bcheck",
    "head\u00adcheck",
    "head-check",
    "hëádçhéčk",
    "𝐡𝐞𝐚𝐝𝐜𝐡𝐞𝐜𝐤",
    "ⓗⓔⓐⓓⓒⓗⓔⓒⓚ",
    "🅷🅴🅰🅳🅲🅷🅴🅲🅺",
    "ʜᴇᴀᴅᴄʜᴇᴄᴋ",
    "ĦĒĀĐĊĦĒĊĶ",
    "head<b></b>check",
    "head&#99;heck",
    "he&#x430;dcheck",
    "\x1b[1mhead\x1b[0mcheck",
    "headch\u09ebck",
    "h∈adcheck",
]


@pytest.mark.parametrize("text", [*SPELLINGS, "h e a d c h e c k", "head\ncheck"])
def test_our_name_is_read_in_any_letters(text: str) -> None:
    assert is_named([f"140 / 140, says {text}!"])
    assert is_named(["140 / 140, says ", text[:5], text[5:]])


@pytest.mark.parametrize(
    "text",
    [
        "tensor([1.0, 2.0])",
        "the heads are checked",
        "check: the head",
        "Größe der Köpfe: 4",
        "нейронная сеть обучена, потери 0.3",
        "注意力机制的输出形状是正确的",
        "ヘッド数をチェックしました",
        "το δίκτυο είναι έτοιμο",
        "",
        "0.343 0.434 e-34",
    ],
)
def test_other_texts_do_not_name_us(text: str) -> None:
    assert not is_named([text])


@pytest.mark.parametrize("text", ["<", "?", "\x1b[", "ж", "hе", "&#", "<b"])
def test_long_texts_are_read_once(text: str) -> None:
    assert not is_named([text * 10**5])
