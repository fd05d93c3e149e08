"""Tell a place in sentences: what is right up to which line, and which line is not right."""

import math

import torch
from torch import Tensor

from headcheck.grader.grading.places.lines import Bound
from headcheck.grader.grading.places.locate import Located
from headcheck.grader.grading.places.matching import lay_out_like
from headcheck.grader.grading.places.stages import OracleStage, Stages
from headcheck.grader.grading.tracing.graph import Flow
from headcheck.grader.grading.tracing.positions import Position, name_lines, sort_positions
from headcheck.grader.report.records import LineRecord, PlaceRecord
from headcheck.properties.counting import join_words

MAX_SHOWN = 6
"""the most numbers of a row that are shown"""
VISIBLE = 5e-3
"""the smallest difference, relative to the largest number, that is seen in three digits"""
AXES = {"b": "sequence", "h": "head", "m": "map", "t": "token", "s": "token"}


def tell_place(located: Located) -> PlaceRecord | None:
    """Return the place of a mistake for the record; None if it is not known."""
    bound = located.bound
    if bound is None:
        return None
    row = _find_row(located, bound)
    told = _tell(bound, located.stages, located.flow)
    if located.continued:
        told = f"With a cache, {told[0].lower()}{told[1:]}"
    lines = sort_positions(bound.lines)
    sentence = f"{told} Look at {name_lines(lines)}."
    if f"{name_lines(lines)} " in told.lower():
        sentence = told
    return PlaceRecord(
        sentence=sentence.strip(),
        lines=tuple(LineRecord(cell, line) for cell, line in lines),
        case=str(located.case) if row else None,
        of=row[0] if row else None,
        right=row[1] if row else (),
        got=row[2] if row else (),
    )


def _tell(bound: Bound, stages: Stages, flow: Flow) -> str:
    """Say what is right, and what is not."""
    if bound.weights:
        return bound.weights
    if bound.scrambles:
        name, line = stages[bound.scrambles].name, name_lines(_place(bound, flow))
        return f"The {name} are right, but {line} lays their numbers out in another order."
    if bound.factor is not None:
        times = _format(bound.factor)
        return f"The scores are {times} times what they should be, and right otherwise."
    if bound.stage and (told := stages[bound.stage].told):
        return f"{name_lines(_place(bound, flow)).capitalize()} {told}."
    if bound.is_unused:
        name = stages[bound.stage].name
        return f"The right {name} are computed, but what is returned does not rest on them."
    if not bound.before:
        return _tell_alone(bound, stages, flow)
    return _tell_after(bound, stages, flow)


def _tell_alone(bound: Bound, stages: Stages, flow: Flow) -> str:
    """Say what is wrong if no line before gives anything that is known."""
    if not bound.stage:
        return "What is returned is something else."
    at = name_lines(_place(bound, flow)) or "no line"
    verb = "does not give" if _place(bound, flow) else "gives"
    return f"{at.capitalize()} {verb} the right {stages[bound.stage].name}."


def _tell_after(bound: Bound, stages: Stages, flow: Flow) -> str:
    """Say up to where all is right, and what is wrong after that."""
    computed = [key for key in bound.found if stages[key].needs] or bound.found  # no tokens
    found = join_words([stages[key].name for key in computed] or [""])
    start, at = f"The {found} are right{_tell_before(bound, flow)}", _place(bound, flow)
    if not bound.stage:
        return f"{start}; what is returned is something else."
    name = stages[bound.stage].name
    if bound.is_left_out and bound.step is None:
        return f"{start}, and are returned as they are."
    if bound.is_left_out:
        return f"{start}; no line gives the {name}."
    if at and at[0] in bound.before:
        return f"On {name_lines(at)} the {found} are right, but the {name} are not."
    return f"{start}; {name_lines(at)} does not give the right {name}." if at else f"{start}."


def _tell_before(bound: Bound, flow: Flow) -> str:
    """Say up to which line something is right; a helper may stand above it."""
    last = bound.before[-1]
    after = [at for at in _place(bound, flow) if at[0] == last[0] and at[1] < last[1]]
    return f" ({name_lines([last])})" if after else f" up to {name_lines([last])}"


def _place(bound: Bound, flow: Flow) -> tuple[Position, ...]:
    at = None if bound.step is None else flow.get_position(bound.step)
    return () if at is None else (at,)


def _find_row(
    located: Located, bound: Bound
) -> tuple[str, tuple[str, ...], tuple[str, ...]] | None:
    """Return the name and the right and wrong numbers of the row that is most wrong."""
    if bound.step is None or not bound.stage or bound.is_unused or bound.is_left_out:
        return None
    stage, recorded = located.stages[bound.stage], located.flow.values.get(bound.step)
    if recorded is None or recorded.values.numel() != stage.numel:
        return None
    got = lay_out_like(stage, recorded)
    if got is None or stage.values.dim() < 2:
        return None
    at = _find_worst(stage, got)
    if at is None:
        return None
    right, wrong = stage.values[at][:MAX_SHOWN], got[at][:MAX_SHOWN]
    shown = tuple(map(_format, right.tolist())), tuple(map(_format, wrong.tolist()))
    if shown[0] == shown[1]:
        return None
    return _name_row(stage, at), *shown


def _find_worst(stage: OracleStage, got: Tensor) -> tuple[int, ...] | None:
    """Return the index of the first row in which a shown number is visibly wrong."""
    right = stage.values[..., :MAX_SHOWN]
    off = (got[..., :MAX_SHOWN] - right).abs().nan_to_num(0.0, math.inf, math.inf)
    off = torch.where(got[..., :MAX_SHOWN].isnan(), math.inf, off)
    finite = right[right.isfinite()].abs()
    size = float(finite.max()) if finite.numel() else 1.0
    rows = (off > VISIBLE * size).any(-1).nonzero()
    return tuple(rows[0].tolist()) if len(rows) else None


def _name_row(stage: OracleStage, at: tuple[int, ...]) -> str:
    """Name a row by the places on its axes that are longer than 1."""
    sizes = zip(stage.axes, at, stage.values.shape, strict=False)
    parts = [f"{AXES[axis]} {n}" for axis, n, size in sizes if size > 1 and axis in AXES]
    return " of ".join(reversed(parts))


def _format(number: float) -> str:
    if math.isfinite(number):
        return f"{number:.3g}".replace("-", "−")
    return "nan" if math.isnan(number) else "−∞" if number < 0 else "∞"
