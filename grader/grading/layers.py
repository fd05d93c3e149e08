"""Judge layers around attention by what holds for every layer.

A block, an encoder or a model is no attention itself, but it uses some: of the same file, or of
torch. What it adds may be right in many ways. But in each of them its parts have an effect,
sequences do not mix, later tokens stay hidden, and calls repeat. One call that returned, and its
trace, show whether this holds, and the layer has a record of its own.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from headcheck.grader.grading.excerpts import collect_excerpts
from headcheck.grader.grading.observed_layers import (
    CLAIMS,
    USED,
    Breach,
    LayerClaim,
    ObservedLayer,
)
from headcheck.grader.grading.open_mode import SLUG
from headcheck.grader.grading.places.flow import Position, sort_positions
from headcheck.grader.grading.places.wording import name_lines
from headcheck.grader.reading.layer_code import LayerCode
from headcheck.grader.reading.submission import Submission
from headcheck.grader.report.records import (
    LineRecord,
    NoteRecord,
    PlaceRecord,
    PropertyRecord,
    SubmissionRecord,
    shorten,
)
from headcheck.grader.sandbox.grader_side.session import Session
from headcheck.properties.binding.calls import list_mask_names
from headcheck.properties.binding.signature import Signature
from headcheck.properties.counting import join_words
from headcheck.properties.violations.violation import Status, Violation, ViolationKind

POINTS = 10.0
"""the points of one layer"""
MAX_LAYERS = 8
"""the most layers of a file that are judged"""


@dataclass(frozen=True, slots=True)
class LayerJudge:
    """What is needed to judge the layers of one file."""

    session: Session
    submission: Submission
    classes: Sequence[LayerCode]
    judged: Sequence[SubmissionRecord]
    """the records of the attention of the file"""

    def judge(
        self, observed: Mapping[str, tuple[Signature, ObservedLayer]]
    ) -> list[SubmissionRecord]:
        """Return the records of layers around attention of torch, or around one that is right."""
        wrong = {each.name for each in self.judged if each.status != Status.PASSED.value}
        records = list[SubmissionRecord]()
        for code in self.classes:
            signature, layer = observed.get(code.name, (None, None))
            if signature is None or layer is None or wrong & {*code.uses}:
                continue  # the same mistake would be told twice
            around = self._name_attention(code, layer)
            if around:
                record = self._record(code, around, layer, self._find_all(code, signature, layer))
                records.append(record)
                wrong |= set() if record.status == Status.PASSED.value else {code.name}
        return records[:MAX_LAYERS]

    def _name_attention(self, code: LayerCode, layer: ObservedLayer) -> str:
        """Return the names of the attention that a layer uses; "" if it computes its own."""
        if not layer.attends or any(_is_within(code, at) for at in layer.attends if at):
            return ""
        own = [f"`{each.name}`" for each in self.judged if each.name in code.uses]
        torchs = ["`torch.nn.MultiheadAttention`"] if None in layer.attends else []
        return join_words([*own, *torchs]) if own or torchs else ""

    def _find_all(
        self, code: LayerCode, signature: Signature, layer: ObservedLayer
    ) -> list[Breach]:
        """Return the breaches that calls show, and those that only the code shows."""
        idle = {path.split(".")[0] for path in layer.unread}
        unread = {name: line for name, line in code.unread if name in idle}
        masks = list_mask_names(signature.call)
        unread |= {name: line for name, line in code.idle if name in masks}
        if not unread:
            return list(layer.breaches)
        names = join_words([f"`{name}`" for name in unread])
        lines = tuple((code.cell, line) for line in unread.values())
        found = Breach(USED, f"nothing reads {names}", lines)
        return [found, *(each for each in layer.breaches if each.claim is not USED)]

    def _record(
        self, code: LayerCode, around: str, layer: ObservedLayer, breaches: Sequence[Breach]
    ) -> SubmissionRecord:
        began, share = time.monotonic(), POINTS / len(CLAIMS)
        broken = {each.claim: each for each in breaches}
        properties = tuple(_record_claim(claim, broken.get(claim), share) for claim in CLAIMS)
        said = [f"judged as a layer around {around}, by what holds for every layer", *layer.remarks]
        record = SubmissionRecord(
            file=self.submission.display_path,
            student=self.submission.student,
            exercise=SLUG,
            name=code.name,
            score=POINTS if not broken else sum(each.points for each in properties),
            max_score=POINTS,
            status=(Status.FAILED if broken else Status.PASSED).value,
            seconds=time.monotonic() - began,
            properties=properties,
            notes=tuple(NoteRecord("recognised", shorten(text)) for text in said),
        )
        places = sort_positions(at for each in breaches for at in each.lines)
        return record if not places else self._add_place(record, places)

    def _add_place(self, record: SubmissionRecord, places: Sequence[Position]) -> SubmissionRecord:
        lines = tuple(LineRecord(*place) for place in places)
        place = PlaceRecord(f"Look at {name_lines(places)}.", lines)
        return replace(record, place=place, source=collect_excerpts(self.session, places))


def _is_within(code: LayerCode, at: Position) -> bool:
    return code.cell == at[0] and code.first <= at[1] <= code.last


def _record_claim(claim: LayerClaim, breach: Breach | None, share: float) -> PropertyRecord:
    given = claim.name, claim.claim, claim.group.value
    if breach is None:
        return PropertyRecord(*given, Status.PASSED.value, share, share)
    told = Violation(ViolationKind.VALUE, claim.expected, breach.got, "", claim.claim, "")
    message, words = shorten(str(told)), shorten(told.redacted_message)
    return PropertyRecord(*given, Status.FAILED.value, 0.0, share, message, words=words)
