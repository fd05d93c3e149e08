"""The bound of a mistake: the lines that contain it, and what is right before them."""

from dataclasses import dataclass

from headcheck.grader.grading.places.flow import Position


@dataclass(frozen=True)
class Bound:
    """Where the mistake is."""

    stage: str
    """the key of the first stage that is missing"""
    step: int | None
    """the step that should have given it; None if there is none"""
    lines: tuple[Position, ...]
    """the lines that contain the mistake"""
    before: tuple[Position, ...]
    """the lines that give what it should be computed from, all of which is right"""
    found: tuple[str, ...]
    """the keys of what these lines give"""
    factor: float | None = None
    """if scores are only too large or too small: by how much"""
    scrambles: str = ""
    """if numbers are only laid out wrongly: the key of the stage that they are"""
    is_left_out: bool = False
    """whether no step of the code could be the missing stage"""
    is_unused: bool = False
    """whether the stage is there, and nothing that is returned rests on it"""
    weights: str = ""
    """what is wrong with weights, in a sentence, if that is the mistake"""
