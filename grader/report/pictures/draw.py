"""Draw the evidence of a property as figures: static SVG, each with a caption and a legend."""

from dataclasses import dataclass

from markupsafe import Markup

from headcheck.grader.report.pictures import heatmaps, moves
from headcheck.grader.report.pictures.captions import (
    describe_influence,
    describe_layout,
    describe_weights,
)
from headcheck.grader.report.records import (
    EvidenceRecord,
    InfluenceEvidence,
    LayoutEvidence,
    WeightsEvidence,
)
from headcheck.grader.report.render.sanitise import sanitise_line
from headcheck.properties.counting import count

WEIGHTS_PROVENANCE = {
    "returned": "as they were returned",
    "recovered": "as recovered from the outputs",
    "followed": "as computed by the mistake that was found",
}
"""how the actual weights were obtained"""


@dataclass(frozen=True, slots=True)
class Picture:
    """Panels side by side, with a caption that states the main finding, and a legend."""

    sentence: str
    panels: tuple[Markup, ...]
    legend: str


def draw_pictures(evidence: EvidenceRecord | None) -> tuple[Picture, ...]:
    """Draw all figures of a property; without evidence there are none."""
    if evidence is None:
        return ()
    pictures = [_draw_layout(layout) for layout in evidence.layouts]
    if evidence.weights is not None:
        pictures.append(_draw_weights(evidence.weights))
    if evidence.influence is not None:
        pictures.append(_draw_influence(evidence.influence))
    return tuple(pictures)


def _draw_weights(evidence: WeightsEvidence) -> Picture:
    name = sanitise_line(evidence.of).replace("_", " ").removeprefix("attention ")
    made = WEIGHTS_PROVENANCE.get(evidence.made, "")
    where = f"of head {evidence.head} in sequence {evidence.sequence}"
    legend = (
        f"Attention {name} {where}{f', {made}' if made else ''}. Hatched cells are hidden by the "
        f"mask. On {sanitise_line(evidence.case)}"
    )
    return Picture(describe_weights(evidence), heatmaps.draw_weights(evidence), legend)


def _draw_influence(evidence: InfluenceEvidence) -> Picture:
    legend = (
        f"One token of sequence {evidence.sequence} was changed at a time. A dot: the output "
        "changed. Hatched: it must not change, because the token is hidden from it. A frame with "
        f"✗: it is wrong. On {sanitise_line(evidence.case)}"
    )
    return Picture(describe_influence(evidence), heatmaps.draw_influence(evidence), legend)


def _draw_layout(evidence: LayoutEvidence) -> Picture:
    moved = "the projection, before the split" if evidence.step == "split" else "the merged output"
    legend = (
        f"How {count(evidence.tokens, 'token')}, {count(evidence.heads, 'head')} and "
        f"{count(evidence.head_dim, 'channel')} in each are laid out by the mistake that was "
        f"found. 1:4 is the number that belongs to token 1, column 4 of {moved}. Colours are "
        "tokens; framed cells hold a wrong number."
    )
    return Picture(describe_layout(evidence), moves.draw_layout(evidence), legend)
