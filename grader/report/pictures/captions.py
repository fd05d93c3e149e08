"""What a picture shows, in one sentence: for those who read the text, or hear it."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from grader.report.pictures.numbers import format_distinct, format_number
from grader.report.records import (
    EvidenceRecord,
    FloatMatrix,
    InfluenceEvidence,
    LayoutEvidence,
    WeightsEvidence,
)

DISPLAY_TOLERANCE = 0.005
"""numbers nearer than this look the same with two decimals"""
PARTS = ("queries", "keys", "values")
Origin = tuple[int, ...]


def describe_evidence(evidence: EvidenceRecord) -> tuple[str, ...]:
    """The main thing about each picture, in the order of the pictures."""
    return tuple(_iter_descriptions(evidence))


def _iter_descriptions(evidence: EvidenceRecord) -> Iterator[str]:
    for layout in evidence.layouts:
        yield describe_layout(layout)
    if evidence.weights is not None:
        yield describe_weights(evidence.weights)
    if evidence.influence is not None:
        yield describe_influence(evidence.influence)


# ------------------------------------------------------------------------------------- weights


def describe_weights(evidence: WeightsEvidence) -> str:
    """What is most clearly wrong with a matrix of weights."""
    for find in (_describe_nan, _describe_row_sum, _describe_leak, _describe_wrong_weight):
        found = find(evidence)
        if found:
            return f"With {evidence.length} tokens, {found}"
    return f"With {evidence.length} tokens, the weights differ by less than can be seen."


def _describe_nan(evidence: WeightsEvidence) -> str:
    rows = [q for q, row in zip(evidence.queries, evidence.got, strict=True) if None in row]
    return (
        f"the weights of {_format_tokens(rows)} are no numbers (NaN or infinite)." if rows else ""
    )


def _describe_row_sum(evidence: WeightsEvidence) -> str:
    """Rows are compared whose right weights are all there: those sum to one."""
    sums = zip(evidence.queries, _sum_rows(evidence.expected), _sum_rows(evidence.got), strict=True)
    off = [(abs(got - 1), q, got) for q, right, got in sums if abs(right - 1) < 1e-4]
    far, query, total = max(off, default=(0.0, 0, 0.0))
    if far < DISPLAY_TOLERANCE:
        return ""
    return (
        f"row {query} of what was got sums to {format_number(total)}; the weights of a token "
        f"sum to 1."
    )


def _sum_rows(matrix: FloatMatrix) -> list[float]:
    return [sum(value or 0.0 for value in row) for row in matrix]


def _describe_leak(evidence: WeightsEvidence) -> str:
    leaks = [(got, q, k) for q, k, may, _, got in _iter_cells(evidence) if not may and abs(got) > 0]
    weight, query, key = max(leaks, default=(0.0, 0, 0))
    if weight <= 0:
        return ""
    return (
        f"token {query} gives weight {format_number(weight)} to token {key}, which is hidden "
        f"from it."
    )


def _describe_wrong_weight(evidence: WeightsEvidence) -> str:
    off = [(abs(got - right), q, k, right, got) for q, k, _, right, got in _iter_cells(evidence)]
    far, query, key, right, got = max(off)
    if not far:
        return ""
    other = "itself" if query == key else f"token {key}"
    given, wanted = format_distinct(got, right)
    return f"token {query} gives weight {given} to {other}, where {wanted} is right."


def _iter_cells(evidence: WeightsEvidence) -> Iterator[tuple[int, int, bool, float, float]]:
    """Query, key, whether that may be seen, the right weight and the one got."""
    rows = zip(evidence.queries, evidence.may_attend, evidence.expected, evidence.got, strict=True)
    for query, may, right, got in rows:
        for key, allowed, wanted, value in zip(evidence.keys, may, right, got, strict=True):
            yield query, key, allowed, wanted or 0.0, value or 0.0


# ----------------------------------------------------------------------------------- influence


def describe_influence(evidence: InfluenceEvidence) -> str:
    """Which outputs moved that must not, or did not that should."""
    leaks, stuck = [], []
    rows = zip(evidence.tokens, evidence.may, evidence.expected, evidence.got, strict=True)
    for output, may, expected, got in rows:
        for token, allowed, right, moved in zip(evidence.tokens, may, expected, got, strict=True):
            if moved and not allowed:
                leaks.append((output, token))
            elif right and not moved:
                stuck.append((output, token))
    start = f"With {evidence.length} tokens, output"
    if leaks:
        output, token = leaks[0]
        more = f", and {len(leaks) - 1} more like it" if len(leaks) > 1 else ""
        return f"{start} {output} moved when token {token} changed, which is hidden from it{more}."
    if stuck:
        output, token = stuck[0]
        return f"{start} {output} did not move when token {token} changed, which it should see."
    return "Just those outputs moved that should."


# -------------------------------------------------------------------------------------- layout


def describe_layout(evidence: LayoutEvidence) -> str:
    """How many numbers are in a wrong place, and what one row holds."""
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
    place = f"head {head}, token {token}" if evidence.step == "split" else f"token {token}"
    return (
        f"With {evidence.tokens} tokens and {evidence.heads} heads of {evidence.head_dim} "
        f"channels, "
        f"{wrong} of {len(pairs)} numbers are in the wrong place: {place} holds "
        f"{_describe_origins(evidence, got[at])} instead of "
        f"{_describe_origins(evidence, right[at])}."
    )


def _get_shape(blocks: Sequence[Sequence[Sequence[Origin]]]) -> tuple[int, int, int]:
    return len(blocks), len(blocks[0]), len(blocks[0][0])


def _describe_shape(evidence: LayoutEvidence, blocks: Sequence[Sequence[Sequence[Origin]]]) -> str:
    many, rows, columns = _get_shape(blocks)
    if evidence.step == "split":
        heads = f"{many} head{'s' * (many != 1)}"
        return f"{heads} of {rows} tokens with {columns} channels"
    return f"{'' if many == 1 else f'{many} times '}{rows} rows of {columns} columns"


def _flatten_rows(blocks: Sequence[Sequence[Sequence[Origin]]]) -> list[Sequence[Origin]]:
    return [row for block in blocks for row in block]


def _describe_origins(evidence: LayoutEvidence, row: Sequence[Origin]) -> str:
    """`columns 0–2 of token 1 and columns 0–2 of token 2`, and zeros where there is nothing."""
    runs = groupby(row, key=lambda origin: (origin[0], *origin[3:]) if origin else ())
    return " and ".join(_describe_origin(evidence, list(run)) for _, run in runs)


def _describe_origin(evidence: LayoutEvidence, run: Sequence[Origin]) -> str:
    """Neighbours that come from one token of one part."""
    if not run[0]:
        return "zeros" if len(run) > 1 else "a zero"
    columns = [compute_column(evidence, origin) for origin in run]
    many = "columns" if len(columns) > 1 else "column"
    return f"{many} {_format_range(columns)} of {format_part(run[0])}token {run[0][0]}"


def format_part(origin: Origin) -> str:
    """`keys, ` where a number is one of the keys, and nothing where that goes without saying."""
    return f"{PARTS[origin[3]]}, " if len(origin) > 3 and 0 <= origin[3] < len(PARTS) else ""


def compute_column(evidence: LayoutEvidence, origin: Origin) -> int:
    """The column in which a number was before the split, or should be after the merge."""
    return origin[1] * evidence.head_dim + origin[2]


def format_label(evidence: LayoutEvidence, origin: Origin) -> str:
    """A number by where it belongs: `1:4` is column 4 of token 1, `k1:4` that of the keys."""
    if not origin:
        return "0"
    return f"{format_part(origin)[:1]}{origin[0]}:{compute_column(evidence, origin)}"


def _format_range(columns: list[int]) -> str:
    if columns == list(range(columns[0], columns[0] + len(columns))) and len(columns) > 1:
        return f"{columns[0]}–{columns[-1]}"
    return ", ".join(map(str, columns))


def _format_tokens(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"token {numbers[0]}"
    return f"tokens {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
