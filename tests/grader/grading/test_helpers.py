"""Functions that make masks or rotary tables for classes of a file are judged by what they make."""

import contextlib
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader.grading.grade import grade_file_or_raise, infer_targets
from headcheck.grader.grading.helpers import judge_helpers
from headcheck.grader.grading.open_mode import SLUG
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.submission import find_submissions
from headcheck.grader.report.records import NoteRecord, SubmissionRecord
from headcheck.grader.sandbox.grader_side.session import Session
from headcheck.grader.sandbox.limits import Limits
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.terms.call_form import Given, MaskConvention, Polarity

if TYPE_CHECKING:
    from tests.grader.conftest import SandboxDriver

Judge = Callable[..., tuple[dict[str | None, SubmissionRecord], list[NoteRecord]]]
P = Polarity
MASKED = BY_SLUG["masked_multi_head"].contract
HEAD = "import torch\nfrom torch import nn\n\n\n"

LATER = "def subsequent_mask(size):\n    return {}\n"
PADDED = "def get_pad_mask(seq, pad_idx):\n    return {}\n"
TARGET = "def make_std_mask(tgt, pad):\n    n = tgt.shape[1]\n    return {}\n"
LOWER = "torch.ones(size, size).tril()"
REAL = "(seq != pad_idx)[:, None]"
BOTH = "(tgt != pad)[:, None] {} torch.ones(n, n, dtype=torch.bool).tril()"
USE = "\n\ndef run(block, x):\n    mask = {}\n    return block(x, mask)\n"


def takes(polarity: Polarity) -> Contract:
    form = replace(MASKED.call_form, mask=MaskConvention(polarity))
    return replace(MASKED, call_form=form)


@pytest.fixture
def judge(sandbox: "SandboxDriver", tmp_path: Path) -> Judge:
    """Judges the functions of a file for classes with these contracts; records by name."""

    def judge_source(
        source: str, *contracts: Contract
    ) -> tuple[dict[str | None, SubmissionRecord], list[NoteRecord]]:
        path = tmp_path / "ada.py"
        path.write_text(HEAD + textwrap.dedent(source), encoding="utf-8")
        [handed_in] = find_submissions([str(path)])
        settings = Settings()
        session = Session(sandbox.server, path.read_bytes(), "py", Limits())
        with contextlib.closing(session):
            inferred = infer_targets(session, handed_in, settings)
            given = contracts or (takes(P.KEEP),)
            records, notes = judge_helpers(session, settings, handed_in, inferred, given)
        return {record.name: record for record in records}, notes

    return judge_source


def tell(record: SubmissionRecord) -> str:
    return " ".join(record.properties[0].message.split())


# ---------------------------------------------------------------------------- what is right


@pytest.mark.parametrize(
    ("source", "polarity"),
    [
        (LATER.format(LOWER), P.KEEP),
        (LATER.format("torch.ones(1, size, size).triu(1) == 0"), P.KEEP),
        (LATER.format("torch.ones(size, size).triu(1).bool()"), P.BLOCK),
        (LATER.format("torch.full((size, size), float('-inf')).triu(1)"), P.ADDED),
        (LATER.format("torch.full((1, 1, size, size), -1e9).triu(1)"), P.ADDED),
        ("def causal_mask(x):\n    return torch.ones(x.shape[1], x.shape[1]).tril()", P.KEEP),
        ("def makeCausalMask(b, n, device=None, window=0):\n"
         "    return torch.ones(b, n, n, device=device).tril()", P.KEEP),
        (PADDED.format(REAL), P.KEEP),
        (PADDED.format("(seq == pad_idx)[:, None, None]"), P.BLOCK),
        (PADDED.format("(seq == pad_idx)[:, None, None] * -1e4"), P.ADDED),
        (PADDED.format("(seq != pad_idx)[:, :, None] & (seq != pad_idx)[:, None]"), P.KEEP),
        ("PAD = 77\n\ndef pad_mask(seq):\n    return (seq != PAD)[:, None]", P.KEEP),
        ("def src_mask(src):\n    return src.eq(0)[:, None, None]", P.BLOCK),
        ("def pad_mask(lengths, max_len):\n"
         "    return torch.arange(max_len)[None] < lengths[:, None]", P.KEEP),
        ("class Model(nn.Module):\n"
         "    def get_extended_attention_mask(self, attention_mask, dtype):\n"
         "        return (1 - attention_mask[:, None, None].to(dtype)) * -1e4", P.ADDED),
        (TARGET.format(BOTH.format("&")), P.KEEP),
        (TARGET.format("torch.ones(n, n).tril()"), P.KEEP),  # it hides what comes last anyway
        ("def make_trg_mask(trg):\n"
         "    return torch.ones(len(trg), 1, trg.shape[1], trg.shape[1]).tril()", P.KEEP),
    ],
)  # fmt: skip
def test_a_mask_that_hides_what_its_name_says_passes(
    judge: Judge, source: str, polarity: Polarity
) -> None:
    records, _ = judge(source, takes(polarity))
    [record] = records.values()
    assert (record.status, record.score, record.max_score) == ("passed", 10, 10)


def test_a_kernel_takes_masks_that_are_added_besides_booleans(judge: Judge) -> None:
    source = LATER.format("torch.full((size, size), float('-inf')).triu(1)") + USE.format(
        "subsequent_mask(len(x))"
    )
    mask = MaskConvention(P.KEEP, "bool")
    kernel = replace(MASKED, call_form=replace(MASKED.call_form, mask=mask))
    records, _ = judge(source, kernel)
    assert records["subsequent_mask"].status == "passed"
    records, _ = judge(source, takes(P.KEEP))
    assert records["subsequent_mask"].status == "failed"


# ---------------------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    ("source", "expected", "got"),
    [
        (LATER.format("torch.ones(size, size).triu(2) == 0"), "token 0 sees 0", "sees 0 and 1"),
        (LATER.format(LOWER + ".T"), "token 0 sees 0", "sees 0, 1, 2, 3, 4, 5 and 6"),
        (LATER.format("torch.ones(size, size).tril(-1)"), "token 0 sees 0", "sees none"),
        (PADDED.format("(seq != pad_idx)[:, None, :, None]"), "sees 0, 1, 2, 3 and 4", "5 and 6"),
        (PADDED.format("(seq != 0)[:, None]"), "sees 0, 1, 2, 3 and 4", "5 and 6"),
        (PADDED.format("(seq[:1] != pad_idx)[:, None]"), "token 0 sees", "sees 0, 1, 2, 3 and 4"),
        (TARGET.format(BOTH.format("|")), "token 0 sees 0", "sees 0, 1, 2, 3 and 4"),
        ("def create_target_mask(tar):\n    n = tar.shape[1]\n"
         "    hidden = (tar == 0).float()[:, None]\n"
         "    return torch.minimum(hidden, torch.ones(n, n).triu(1))", "token 0 sees 0", "0, 1, 2"),
    ],
)  # fmt: skip
def test_a_mask_that_hides_anything_else_fails_with_a_place(
    judge: Judge, source: str, expected: str, got: str
) -> None:
    records, _ = judge(source, takes(P.BLOCK if "minimum" in source else P.KEEP))
    [record] = records.values()
    assert (record.status, record.score) == ("failed", 0)
    assert expected in tell(record)
    assert got in tell(record)
    assert record.place is not None
    lines = (HEAD + source).splitlines()
    told = [lines[(place.line or 0) - 1].lstrip() for place in record.place.lines]
    assert told[-1].startswith("return") and not told[0].startswith("def")
    assert record.source


def test_a_mask_of_the_other_polarity_fails_if_it_is_passed_on(judge: Judge) -> None:
    hiding = LATER.format("torch.ones(size, size).triu(1).bool()")
    records, _ = judge(hiding + USE.format("subsequent_mask(x.shape[1])[None]"))
    assert records["subsequent_mask"].status == "failed"
    assert "a mask that is true where a query may attend" in tell(records["subsequent_mask"])
    assert "one that is true where a query may not attend" in tell(records["subsequent_mask"])


@pytest.mark.parametrize(
    "use",
    [
        "",
        USE.format("~subsequent_mask(x.shape[1])"),
        USE.format("torch.logical_not(subsequent_mask(x.shape[1]))"),
        USE.format("subsequent_mask(x.shape[1]) == 0"),
        USE.format("subsequent_mask(3)") + "\nlayer = nn.TransformerEncoderLayer(8, 2)\n",
    ],
)
def test_nothing_is_said_of_a_polarity_that_may_be_meant(judge: Judge, use: str) -> None:
    hiding = LATER.format("torch.ones(size, size).triu(1).bool()")
    assert judge(hiding + use) == ({}, [])


@pytest.mark.parametrize(
    "source",
    [
        "def sliding_window_causal_mask(n, window):\n    return torch.ones(n, n).triu(-window)",
        "def causal_mask(n, window=3):\n    return torch.ones(n, n).tril().triu(-window)",
        "def causal_mask(blocks):\n    return torch.ones(3, 3)",
        "def subsequent_mask(size):\n    raise ValueError",
        "def subsequent_mask(size):\n    return 'no tensor'",
        "def subsequent_mask(size):\n    return torch.ones(size).tril",
        "def subsequent_mask(size):\n    return torch.ones(size, size), torch.ones(size, size)",
        "def get_non_pad_mask(seq):\n    return (seq != 0)[..., None]",
        "def pad_mask(seq):\n    return (seq != 50256)[:, None]",
        "def pad_mask(x):\n    return (x.abs().sum(-1) != 0)",
        "def get_mask(size):\n    return torch.ones(size, size)",
        "class Own(nn.Module):\n    def causal_mask(self, n):\n        return self.kept[:n, :n]",
    ],
)
def test_nothing_is_said_of_what_is_not_understood(judge: Judge, source: str) -> None:
    assert judge(source) == ({}, [])


@pytest.mark.parametrize(("masks", "judged"), [("mask", True), ("mask, pad_mask", False)])
def test_nothing_is_said_of_the_polarities_of_several_masks(
    judge: Judge, masks: str, judged: bool
) -> None:
    own = f"class MultiHead(nn.Module):\n    def forward(self, x, {masks}):\n        return x\n\n"
    hiding = LATER.format("torch.ones(size, size).triu(1).bool()")
    use = USE.format("subsequent_mask(x.shape[1])")
    records, _ = judge(own + hiding + use, replace(takes(P.KEEP), name="MultiHead"))
    assert bool(records) is judged


def test_what_calls_a_wrong_function_is_not_blamed_again(judge: Judge) -> None:
    wrong = LATER.format("torch.ones(size, size).tril(1).bool()")
    right = PADDED.format(REAL)
    whole = TARGET.format("(tgt != pad)[:, None] & subsequent_mask(n)")
    records, _ = judge("\n\n".join((wrong, right, whole)))
    assert {name: r.status for name, r in records.items()} == {
        "subsequent_mask": "failed", "get_pad_mask": "passed",
    }  # fmt: skip


def test_without_a_class_that_takes_masks_nothing_is_judged(judge: Judge) -> None:
    assert judge(LATER.format(LOWER), BY_SLUG["multi_head_attention"].contract) == ({}, [])


# --------------------------------------------------------------------------------- a file

CLASS = """
class Blend(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.h = num_heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c))


"""


@pytest.mark.parametrize(("diagonal", "status"), [(0, "passed"), (1, "failed")])
def test_a_function_has_a_record_beside_that_of_the_class(
    sandbox: "SandboxDriver", tmp_path: Path, diagonal: int, status: str
) -> None:
    path = tmp_path / "ada.py"
    made = LATER.format(f"torch.ones(size, size).tril({diagonal})")
    path.write_text(HEAD + CLASS + made, encoding="utf-8")
    [whole], [named] = (find_submissions([f"{path}{name}"]) for name in ("", ":Blend"))
    first, second = grade_file_or_raise(sandbox.server, whole, Settings())
    assert (first.name, first.status) == ("Blend", "passed")
    assert (second.name, second.status, second.exercise) == ("subsequent_mask", status, SLUG)
    assert [r.name for r in grade_file_or_raise(sandbox.server, named, Settings())] == ["Blend"]


# --------------------------------------------------------------------------- rotary tables

ANGLES = """
def {name}:
    speeds = base ** -(torch.arange(0, dim, 2) / dim)
    angles = torch.outer(torch.arange(end), speeds)
    return {made}
"""
FUNCTION = "rope_tables(dim, end=99, base=10000.0)"
HALVES = "angles.repeat(1, 2).cos(), angles.repeat(1, 2).sin()"
PAIRS = "angles.repeat_interleave(2, -1).cos(), angles.repeat_interleave(2, -1).sin()"
TURNED = "torch.polar(torch.ones_like(angles), angles)"
MODULE = """
class RotaryEmbedding(nn.Module):
    def __init__(self, dim, max_position_embeddings=2048, base=10000):
        super().__init__()
        self.register_buffer("speeds", base ** -(torch.arange(0, dim, 2) / dim))

    def forward(self, x, position_ids):
        angles = position_ids[..., None] * self.speeds
        angles = torch.cat((angles, angles), -1)
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)
"""


def is_given(*kinds: Given) -> Contract:
    given = {f"table_{number}": kind for number, kind in enumerate(kinds)}
    contract = BY_SLUG["rope"].contract
    return replace(contract, call_form=replace(contract.call_form, given=given))


OF_HALVES = is_given(Given.COSINES_OF_HALVES, Given.SINES_OF_HALVES)


@pytest.mark.parametrize(
    ("source", "contract"),
    [
        (ANGLES.format(name=FUNCTION, made=HALVES), OF_HALVES),
        (ANGLES.format(name="get_cos_sin(end, dim, base)", made=HALVES), OF_HALVES),
        (ANGLES.format(name=FUNCTION, made=HALVES.replace("cos(), ", "cos() * 1.2, ")
                       + " * 1.2"), is_given(Given.BOTH_OF_HALVES)),
        (ANGLES.format(name=FUNCTION, made=f"[t[None, None] for t in ({HALVES})]"), OF_HALVES),
        (ANGLES.format(name=FUNCTION, made=PAIRS), is_given(Given.COSINES_OF_PAIRS)),
        (ANGLES.format(name=FUNCTION, made="angles.cos(), angles.sin()"), is_given(Given.BOTH)),
        (ANGLES.format(name="precompute_freqs_cis(dim, end, base=5e5)", made=TURNED),
         is_given(Given.COMPLEX)),
        (ANGLES.format(name=FUNCTION, made=f"torch.view_as_real({TURNED})"),
         is_given(Given.COMPLEX_PAIRS)),
        (ANGLES.format(name=FUNCTION, made="angles / 4"), is_given(Given.ANGLES)),
        (MODULE, OF_HALVES),
    ],
)  # fmt: skip
def test_tables_that_fit_pass(judge: Judge, source: str, contract: Contract) -> None:
    records, notes = judge(source, contract)
    [record] = records.values()
    assert (record.status, record.score, notes) == ("passed", 10, [])


@pytest.mark.parametrize(
    ("made", "contract", "got"),
    [
        (PAIRS, OF_HALVES, "`2i` and `2i + 1` are"),
        (HALVES, is_given(Given.COSINES_OF_PAIRS), "`i` and `i` plus half are"),
        ("torch.cat((angles.cos(), angles.sin()), -1), torch.cat((angles.cos(),) * 2, -1)",
         OF_HALVES, "neither these nor neighbours are"),
        ("angles.square().cos(), angles.square().sin()", is_given(Given.BOTH), "token 2 does not"),
        ("angles.cos(), angles.cos()", is_given(Given.BOTH), "does not, in pair"),
        ("angles.flip(-1).cos(), angles.flip(-1).sin()", is_given(Given.BOTH), "0.001, 0.01"),
        ("torch.polar(angles, angles)", is_given(Given.COMPLEX), "does not, in pair 0"),
    ],
)  # fmt: skip
def test_tables_that_do_not_fit_fail(judge: Judge, made: str, contract: Contract, got: str) -> None:
    records, _ = judge(ANGLES.format(name=FUNCTION, made=made), contract)
    record = records["rope_tables"]
    assert (record.status, record.score) == ("failed", 0)
    assert f"fit how `{contract.name}` rotates queries and keys" in tell(record)
    assert got in tell(record)


@pytest.mark.parametrize(
    "source",
    [
        ANGLES.format(name="rope_tables(model, dim, end, base)", made=HALVES),
        ANGLES.format(name=FUNCTION, made="angles.cos(), angles.sin()"),
        ANGLES.format(name=FUNCTION, made="angles[:3].cos(), angles[:3].sin()"),
        ANGLES.format(name=FUNCTION, made="torch.zeros(3)"),
        "def rope_tables(dim, end):\n    raise ValueError",
    ],
)
def test_what_makes_no_tables_is_noted(judge: Judge, source: str) -> None:
    records, notes = judge(source, OF_HALVES)
    assert records == {}
    said = ["what `rope_tables` makes is not known: tables are the equation's"]
    assert [note.message for note in notes] == said


def test_functions_that_use_tables_make_none(judge: Judge) -> None:
    assert judge("def apply_rope(x, cos, sin):\n    return x", OF_HALVES) == ({}, [])
    assert judge("def rotary_of(x):\n    return x", BY_SLUG["rope"].contract) == ({}, [])
