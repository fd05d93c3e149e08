"""Where headcheck itself fails, that costs a shortcut or an explanation, and never a verdict."""

import logging
from typing import Any

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.exercises.answers import list_answers
from headcheck.grader.batch import disk_cache, plan, replay, transcript
from headcheck.grader.batch.recording import Recorder, record_queries
from headcheck.grader.grading import diagnosis, evidence, explanation
from headcheck.grader.grading.grade import grade_file_or_raise
from headcheck.grader.grading.live_checker import LiveChecker
from headcheck.grader.grading.open_mode.recognition import Recognition, recognise
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.submission import find_submissions
from headcheck.grader.report.records import SubmissionRecord
from headcheck.grader.sandbox.grader_side.servers import ServerHandle
from headcheck.grader.sandbox.grader_side.session import Session
from headcheck.properties.signatures.signature import Signature
from tests.grader.conftest import GradeAll

EXERCISE = BY_SLUG["causal_attention"]
ASKED = Settings(exercise=EXERCISE)
WRONG = {a.name: a.source for a in list_answers(EXERCISE, "wrong")}["no_mask"]
STAGES = {
    "diagnosed": (diagnosis, "diagnose_failures"),
    "exemplified": (explanation, "explain_with_examples"),
    "described": (diagnosis, "record_diagnoses"),
    "shown": (evidence, "attach_evidence"),
    "quoted": (explanation, "collect_excerpts"),
}


def list_verdicts(record: SubmissionRecord) -> list[tuple[str, str, float]]:
    return [(p.name, p.status, p.points) for p in record.properties]


@pytest.fixture(scope="module")
def whole(server: ServerHandle, tmp_path_factory: pytest.TempPathFactory) -> SubmissionRecord:
    """The record of the wrong answer if nothing fails."""
    path = tmp_path_factory.mktemp("whole") / "ada.py"
    path.write_text(WRONG, encoding="utf-8")
    [record] = grade_file_or_raise(server, find_submissions([str(path)])[0], ASKED)
    return record


def fail(*given: object, **named: object) -> Any:
    raise ZeroDivisionError("a fault that was put here")


@pytest.mark.sampled("stage", STAGES, list(STAGES)[::3])
def test_a_stage_of_explaining_costs_what_it_adds(
    grade_all: GradeAll,
    monkeypatch: pytest.MonkeyPatch,
    stage: str,
    whole: SubmissionRecord,
) -> None:
    monkeypatch.setattr(*STAGES[stage], fail)
    [record] = grade_all(WRONG, ASKED)
    assert record.error is None and list_verdicts(record) == list_verdicts(whole)
    told = [note.message for note in record.notes if note.kind == "fault"]
    assert len(told) == 1 and "ZeroDivisionError" in told[0]


def test_a_search_that_fails_leaves_the_first_case(
    grade_all: GradeAll,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    whole: SubmissionRecord,
) -> None:
    monkeypatch.setattr(LiveChecker, "shrink", fail)
    with caplog.at_level(logging.WARNING):
        [record] = grade_all(WRONG, ASKED)
    assert list_verdicts(record) == list_verdicts(whole)
    assert "ZeroDivisionError" in caplog.text


RECORDING = [(Recorder, "record_property"), (transcript, "find_first_failure")]


@pytest.mark.sampled("where", RECORDING, RECORDING[:1])
def test_what_cannot_be_recorded_is_checked_live(
    grade_all: GradeAll,
    monkeypatch: pytest.MonkeyPatch,
    where: tuple[object, str],
    whole: SubmissionRecord,
) -> None:
    plan._load_batch_plan.cache_clear()
    monkeypatch.setattr(disk_cache, "load_or_make", lambda key, properties, make: make())
    monkeypatch.setattr(*where, fail)
    [record] = grade_all(WRONG, ASKED)
    plan._load_batch_plan.cache_clear()
    assert list_verdicts(record) == list_verdicts(whole)


def test_a_property_that_fails_costs_no_other_its_recording(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cases = EXERCISE.plan_cases()
    recorded = record_queries(EXERCISE.contract, cases).query_numbers
    broken, *others = recorded
    whole = Recorder.record_property

    def record(self: Recorder, prop: object, drawn: object) -> object:
        return fail() if prop is broken else whole(self, prop, drawn)  # type: ignore[arg-type]

    monkeypatch.setattr(Recorder, "record_property", record)
    assert list(record_queries(EXERCISE.contract, cases).query_numbers) == others


def test_a_replay_that_fails_leaves_every_case_open(
    grade_all: GradeAll, monkeypatch: pytest.MonkeyPatch, whole: SubmissionRecord
) -> None:
    monkeypatch.setattr(replay.AnswerReplay, "get_context", fail)
    [record] = grade_all(WRONG, ASKED)
    assert list_verdicts(record) == list_verdicts(whole)


def test_a_class_that_we_fail_at_costs_no_other_its_verdict(
    grade_all: GradeAll, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = EXERCISE.contract.name
    source = EXERCISE.solution.replace(named, "First")
    source += "\n" + source.replace("First", "Second")

    def stumble(reading: Session, signature: Signature, settings: Settings) -> Recognition:
        return fail() if signature.name == "First" else recognise(reading, signature, settings)

    monkeypatch.setattr("headcheck.grader.grading.open_mode.judge.recognise", stumble)
    [record] = grade_all(source)
    assert record.name == "Second" and record.status == "passed"


BLOCK = """
import torch
from torch import nn

class Core(nn.Module):
    def __init__(self):
        super().__init__()
        self.atten = nn.Linear(48, 144, bias=False)
        self.c_proj = nn.Linear(48, 48)

    def forward(self, x):
        layers = self.atten(x).split(48, dim=2)
        q, k, v = (t.unflatten(-1, (6, -1)).transpose(1, 2) for t in layers)
        weights = torch.softmax(q @ k.mT * k.size(-1) ** -0.5, -1)
        return self.c_proj((weights @ v).transpose(1, 2).flatten(2))

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(48), Core()
        fed = dict(c_fc=nn.Linear(48, 192), c_proj=nn.Linear(192, 48))
        self.mlp = nn.ModuleDict(fed)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp.c_proj(torch.relu(self.mlp.c_fc(self.ln_1(x))))
"""


@pytest.mark.whole
def test_the_layers_of_a_block_are_not_mixed_with_those_of_its_attention(
    grade_all: GradeAll,
) -> None:
    records = grade_all(BLOCK)
    assert [note for record in records for note in record.notes if note.kind == "fault"] == []
    assert ("Core", "passed") in [(record.name, record.status) for record in records]
