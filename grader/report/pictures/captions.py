"""Captions: the main finding of a figure in one sentence, also for readers of the text only."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from headcheck.grader.report.pictures.numbers import format_distinct, format_number
from headcheck.grader.report.records import (
    EvidenceRecord,
    FloatMatrix,
    InfluenceEvidence,
    LayoutEvidence,
    WeightsEvidence,
)
from headcheck.properties.counting import count, count_share, join_words

DISPLAY_TOLERANCE = 0.005
"""numbers that differ by less than this look equal with two decimals"""
FIGURE_TOKENS = re.compile(r"With (\d+) tokens?\b")
"""the part of a caption that states the number of tokens in the input of a figure"""
PLACE = re.compile(r"\b(?:tokens?|row|output) \d")
"""a token that a caption names by its number"""
PARTS = ("queries", "keys", "values")
Origin = tuple[int, ...]


def describe_evidence(evidence: EvidenceRecord) -> tuple[str, ...]:
    """Return the caption of each figure, in the order of the figures."""
    captions = [describe_layout(layout) for layout in evidence.layouts]
    if evidence.weights is not None:
        captions.append(describe_weights(evidence.weights))
    if evidence.influence is not None:
        captions.append(describe_influence(evidence.influence))
    return tuple(captions)


def describe_seen(evidence: EvidenceRecord, case: str) -> str:
    """Return the first caption, or "", for a text that shows another case above it."""
    caption = next(iter(describe_evidence(evidence)), "")
    said = caption
    if PLACE.search(caption):
        said = f"{caption.removesuffix('.')} (tokens are counted from 0)."
    tokens = FIGURE_TOKENS.match(caption)
    if tokens and f"tokens={tokens[1]} " not in f"{case} ":
        return f"On another input: {said[0].lower()}{said[1:]}"
    return said


# ------------------------------------------------------------------------------------- weights


def describe_weights(evidence: WeightsEvidence) -> str:
    """Describe the most obvious error in a matrix of weights."""
    return f"With {count(evidence.length, 'token')}, {_find_error(evidence)}"


def _find_error(evidence: WeightsEvidence) -> str:
    if all(number == 0 for row in evidence.got for number in row):
        return "no output gets anything of any value."
    for describe in (_describe_nan, _describe_row_sum, _describe_leak, _describe_wrong_weight):
        if finding := describe(evidence):
            return finding
    return "the weights differ by less than can be seen."


def _describe_nan(evidence: WeightsEvidence) -> str:
    rows = [q for q, row in zip(evidence.queries, evidence.got, strict=True) if None in row]
    if not rows:
        return ""
    tokens = "token" if len(rows) == 1 else "tokens"
    return f"the weights of {tokens} {join_words([*map(str, rows)])} are NaN or infinite."


def _describe_row_sum(evidence: WeightsEvidence) -> str:
    """Compare the sums of rows whose visible keys are all shown; they should be 1."""
    whole = len(evidence.keys) == evidence.length
    sums = zip(evidence.queries, _sum_rows(evidence.expected), _sum_rows(evidence.got), strict=True)
    off = [(abs(got - r), q, r, got) for q, r, got in sums if whole or _is_one(r)]
    error, query, right, total = max(off, default=(0.0, 0, 0.0, 0.0))
    if error < DISPLAY_TOLERANCE:
        return ""
    got, wanted = format_distinct(total, right)
    if evidence.made == "recovered":  # from outputs, which may hold something besides
        return f"output {query} gets {got} of the values in all, where {wanted} is right."
    expected = "a row sums to 1" if _is_one(right) else f"{wanted} is right"
    return f"row {query} of the weights sums to {got}, where {expected}."


def _is_one(total: float) -> bool:
    return abs(total - 1) < 1e-4


def _sum_rows(matrix: FloatMatrix) -> list[float]:
    return [sum(value or 0.0 for value in row) for row in matrix]


def _describe_leak(evidence: WeightsEvidence) -> str:
    leaks = [(got, q, k) for q, k, may, _, got in _iter_cells(evidence) if not may and abs(got) > 0]
    weight, query, key = max(leaks, default=(0.0, 0, 0))
    if weight <= 0:
        return ""
    given = f"token {query} gives weight {format_number(weight)} to token {key}"
    return f"{given}, which should be hidden from it."


def _describe_wrong_weight(evidence: WeightsEvidence) -> str:
    off = [(abs(got - right), q, k, right, got) for q, k, _, right, got in _iter_cells(evidence)]
    error, query, key, right, got = max(off)
    if not error:
        return ""
    actual, expected = format_distinct(got, right)
    whom = "itself" if query == key else f"token {key}"
    return f"token {query} gives weight {actual} to {whom}, where {expected} is right."


def _iter_cells(evidence: WeightsEvidence) -> Iterator[tuple[int, int, bool, float, float]]:
    """Yield query, key, whether the key is visible, the expected weight and the actual one."""
    rows = zip(evidence.queries, evidence.may_attend, evidence.expected, evidence.got, strict=True)
    for query, may, right, got in rows:
        for key, visible, expected, actual in zip(evidence.keys, may, right, got, strict=True):
            yield query, key, visible, expected or 0.0, actual or 0.0


# ----------------------------------------------------------------------------------- influence


def describe_influence(evidence: InfluenceEvidence) -> str:
    """Describe which outputs moved but must not, or did not move but should."""
    leaks, stuck = [], []
    rows = zip(evidence.tokens, evidence.may, evidence.expected, evidence.got, strict=True)
    for output, may, expected, got in rows:
        for token, allowed, right, moved in zip(evidence.tokens, may, expected, got, strict=True):
            if moved and not allowed:
                leaks.append((output, token))
            elif right and not moved:
                stuck.append((output, token))
    if not (leaks or stuck):
        return "Just those outputs moved that should."
    output, token = (leaks or stuck)[0]
    more = f", and {len(leaks) - 1} more like it" if len(leaks) > 1 else ""
    verb = "moved" if leaks else "did not move"
    why = f"which should be hidden from it{more}" if leaks else "which it should see"
    length = count(evidence.length, "token")
    return f"With {length}, output {output} {verb} when token {token} changed, {why}."


# -------------------------------------------------------------------------------------- layout


def describe_layout(evidence: LayoutEvidence) -> str:
    """Describe how many numbers are in the wrong position, and the contents of one wrong row."""
    right, got = _flatten_rows(evidence.expected), _flatten_rows(evidence.got)
    if _get_shape(evidence.expected) != _get_shape(evidence.got):
        return (
            f"The {evidence.step} gives {_describe_shape(evidence, evidence.got)}, not "
            f"{_describe_shape(evidence, evidence.expected)}."
        )
    pairs = [(a, b) for r, g in zip(right, got, strict=True) for a, b in zip(r, g, strict=True)]
    wrong = sum(a != b for a, b in pairs)
    at = next((i for i, (r, g) in enumerate(zip(right, got, strict=True)) if r != g), None)
    if at is None:
        return "Every number is where it should be."
    head, token = divmod(at, len(evidence.expected[0]))
    row = f"head {head}, token {token}" if evidence.step == "split" else f"token {token}"
    return (
        f"With {count(evidence.tokens, 'token')} and {count(evidence.heads, 'head')} of "
        f"{count(evidence.head_dim, 'channel')}, {count_share(wrong, len(pairs), 'number')} in the "
        f"wrong place: {row} holds {_describe_origins(evidence, got[at])} instead of "
        f"{_describe_origins(evidence, right[at])}."
    )


def _get_shape(blocks: Sequence[Sequence[Sequence[Origin]]]) -> tuple[int, int, int]:
    return len(blocks), len(blocks[0]), len(blocks[0][0])


def _describe_shape(evidence: LayoutEvidence, blocks: Sequence[Sequence[Sequence[Origin]]]) -> str:
    many, rows, columns = _get_shape(blocks)
    if evidence.step == "split":
        each = f"{count(rows, 'token')} with {count(columns, 'channel')}"
        return f"{count(many, 'head')} of {each}"
    times = "" if many == 1 else f"{many} times "
    return f"{times}{count(rows, 'row')} of {count(columns, 'column')}"


def _flatten_rows(blocks: Sequence[Sequence[Sequence[Origin]]]) -> list[Sequence[Origin]]:
    return [row for block in blocks for row in block]


def _describe_origins(evidence: LayoutEvidence, row: Sequence[Origin]) -> str:
    """Describe a row: `columns 0–2 of token 1 and columns 0–2 of token 2`, or zeros."""
    runs = groupby(row, key=lambda origin: (origin[0], *origin[3:]) if origin else ())
    return " and ".join(_describe_origin(evidence, list(run)) for _, run in runs)


def _describe_origin(evidence: LayoutEvidence, run: Sequence[Origin]) -> str:
    """Describe neighbouring numbers that come from one token of one part."""
    if not run[0]:
        return "zeros" if len(run) > 1 else "a zero"
    columns = [compute_column(evidence, origin) for origin in run]
    many = "columns" if len(columns) > 1 else "column"
    part = format_part(run[0]).removesuffix(", ")
    whose = f"the {part} of " if part else ""
    return f"{many} {_format_range(columns)} of {whose}token {run[0][0]}"


def format_part(origin: Origin) -> str:
    """Return the part that a number comes from, as `keys, `; empty if it is the expected part."""
    return f"{PARTS[origin[3]]}, " if len(origin) > 3 and 0 <= origin[3] < len(PARTS) else ""


def compute_column(evidence: LayoutEvidence, origin: Origin) -> int:
    """Return the column of a number before the split, or its correct one after the merge."""
    return origin[1] * evidence.head_dim + origin[2]


def format_label(evidence: LayoutEvidence, origin: Origin) -> str:
    """Return the label of a number: `1:4` is column 4 of token 1, `k1:4` the same in the keys."""
    if not origin:
        return "0"
    return f"{format_part(origin)[:1]}{origin[0]}:{compute_column(evidence, origin)}"


def _format_range(columns: list[int]) -> str:
    if columns == list(range(columns[0], columns[0] + len(columns))) and len(columns) > 1:
        return f"{columns[0]}–{columns[-1]}"
    return ", ".join(map(str, columns))
