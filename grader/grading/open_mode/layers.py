"""Judge layers around attention, and attention of no known kind, by what holds for every layer.

A block, an encoder or a model is no attention itself, but it uses some: of the same file, or of
torch. What it adds may be right in many ways. But in each of them its parts have an effect,
sequences do not mix, later tokens stay hidden, and calls repeat. One call that returned, and its
trace, show whether this holds, and the layer has a record of its own.
"""

import re
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from headcheck.grader.grading.excerpts import collect_excerpts
from headcheck.grader.grading.infer import OPEN
from headcheck.grader.grading.open_mode.layer_claims import JudgedClaim
from headcheck.grader.grading.open_mode.observed_layers import EFFECT, USED, ObservedLayer
from headcheck.grader.grading.tracing.positions import Position, name_lines, sort_positions
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
from headcheck.properties.binding import grounds
from headcheck.properties.binding.calls import list_mask_names
from headcheck.properties.counting import join_words
from headcheck.properties.signatures.signature import Signature
from headcheck.properties.violations.violation import Status, Violation, ViolationKind

NUMBERED = re.compile(r"\d+|(^|_)(q|k|v|query|key|value)(?=_|$)")
"""the parts of names by which attributes of one kind differ"""
POINTS = 10.0
"""the points of one layer"""
MAX_RECORDS = 8
"""the most layers that are judged in one file"""


@dataclass(frozen=True, slots=True)
class LayerJudge:
    """What is needed to judge the layers of one file."""

    session: Session
    submission: Submission
    classes: Sequence[LayerCode]
    judged: Sequence[SubmissionRecord]
    """the records of the attention of the file"""
    whole: Collection[str]
    """the names of those with layers for queries, keys and values; others are parts of attention"""
    kinds: Mapping[str, str]
    """what classes are by their names that compute attention of which no equation is known"""

    def judge(
        self, observed: Mapping[str, tuple[Signature, ObservedLayer]]
    ) -> list[SubmissionRecord]:
        """Return the records of layers around attention of torch, or around one that is right."""
        judged = {each.name for each in self.judged}
        wrong = {each.name for each in self.judged if each.status != Status.PASSED.value}
        records = list[SubmissionRecord]()
        for code in self.classes:
            signature, layer = observed.get(code.name, (None, None))
            if signature is None or layer is None or wrong & {code.name, *code.uses}:
                continue  # the same mistake would be told twice
            began, claims = time.monotonic(), self._find_all(code, signature, layer)
            around, right = self._name_attention(code, layer), all(each.holds for each in claims)
            kind = self.kinds.get(code.name, "")
            if around or kind or (layer.compares_tokens and not right):
                ground = grounds.BLOCK if code.name in judged else grounds.UNKNOWN
                said = grounds.KIND.say(kind) if kind else ground.say()
                said = grounds.AROUND.say(around) if around else said
                given = self.session, self.submission, code.name, claims
                records.append(record_findings(*given, [said, *layer.remarks], began))
                wrong |= set() if right else {code.name}
        return records[:MAX_RECORDS]

    def _name_attention(self, code: LayerCode, layer: ObservedLayer) -> str:
        """Return the names of the attention that a layer uses; "" if it computes its own."""
        if any(_is_within(code, at) for at in layer.attends if at):
            return ""
        own = [f"`{name}`" for name in self.whole if name in code.uses]
        torchs = ["`torch.nn.MultiheadAttention`"] if None in layer.attends else []
        return join_words([*own, *torchs]) if own or torchs else ""

    def _find_all(
        self, code: LayerCode, signature: Signature, layer: ObservedLayer
    ) -> list[JudgedClaim]:
        """Return whether each claim holds, by what calls show and by what only the code shows."""
        broken = {each.claim: each for each in layer.breaches}
        idle = dict.fromkeys(path.split(".")[0] for path in layer.unread)
        masks = list_mask_names(signature.call)
        unread = [name for name in idle if code.read is not None and name not in code.read]
        unread += [name for name, _ in code.idle if name in masks]
        if unread:
            got = f"nothing reads {join_words([f'`{name}`' for name in unread])}"
            known = dict((*code.made, *code.idle))
            lines = {known[name] for name in unread if name in known}
            lines |= {n for name in unread for n in _list_repeated(code, name)}
            told = tuple((code.cell, n) for n in sorted(lines))
            broken[USED] = JudgedClaim(USED, EFFECT, got, lines=told)
        return [broken.get(claim, JudgedClaim(claim)) for claim in layer.claims]


def _list_repeated(code: LayerCode, unread: str) -> list[int]:
    """Return the lines that read an attribute several times that is named alike.

    Its name has another number, or is of queries, and this one of keys.
    """
    stem = NUMBERED.sub("", unread)
    alike = (lines for name, lines in code.repeated if NUMBERED.sub("", name) == stem != unread)
    return [n for lines in alike for n in lines]


def _is_within(code: LayerCode, at: Position) -> bool:
    return code.cell == at[0] and code.first <= at[1] <= code.last


def record_findings(
    session: Session,
    submission: Submission,
    name: str,
    judged_claims: Sequence[JudgedClaim],
    notes: Sequence[str],
    began: float,
) -> SubmissionRecord:
    """Return the record of a definition, whose points claims share, with lines of what is wrong."""
    share = POINTS / len(judged_claims)
    properties = tuple(_record_claim(judged_claim, share) for judged_claim in judged_claims)
    places = sort_positions(at for judged_claim in judged_claims for at in judged_claim.lines)
    holds = all(judged_claim.holds for judged_claim in judged_claims)
    lines = tuple(LineRecord(*place) for place in places)
    return SubmissionRecord(
        file=submission.display_path,
        student=submission.student,
        exercise=OPEN,
        name=name,
        score=POINTS if holds else sum(each.points for each in properties),
        max_score=POINTS,
        status=(Status.PASSED if holds else Status.FAILED).value,
        seconds=time.monotonic() - began,
        properties=properties,
        notes=tuple(NoteRecord("recognised", shorten(text)) for text in notes),
        place=PlaceRecord(f"Look at {name_lines(places)}.", lines) if places else None,
        source=collect_excerpts(session, places),
    )


def _record_claim(judged_claim: JudgedClaim, share: float) -> PropertyRecord:
    claim = judged_claim.claim
    given = claim.name, claim.claim, claim.group.value
    if judged_claim.holds:
        return PropertyRecord(*given, Status.PASSED.value, share, share)
    told = judged_claim.expected, judged_claim.got, "", claim.claim, judged_claim.case
    violation = Violation(ViolationKind.VALUE, *told)
    message, words = shorten(str(violation)), shorten(violation.redacted_message)
    case = judged_claim.case or None
    return PropertyRecord(*given, Status.FAILED.value, 0.0, share, message, case, words=words)
