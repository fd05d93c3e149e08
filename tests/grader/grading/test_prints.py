"""What a submission prints is shown under a failure, and changes nothing else."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader.grading.prints import (
    MAX_FAILURES,
    MAX_PRINTED_LINES,
    list_failures,
    shorten_prints,
)
from headcheck.grader.grading.settings import Settings
from headcheck.grader.report.records import SubmissionRecord, build_report, from_json, to_json
from headcheck.grader.report.render import html, text
from headcheck.grader.report.render.sanitise import UNSAFE
from headcheck.grader.sandbox.grader_side.session import Session
from headcheck.grader.sandbox.operations import MAX_PRINTED, PrintsReply
from headcheck.grader.ui.jupyter.checking import check_in_namespace, make_request
from headcheck.properties.families import ALL
from headcheck.properties.property import Verdict
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import (
    Status,
    SubmissionFailed,
    Violation,
    ViolationKind,
)
from tests.grader.conftest import GradeText

CAUSAL = BY_SLUG["causal_weights"]
BODY = """
    tokens, d = keys.shape
    scores = queries @ keys.T / d**{power}
    {middle}
    past = scores.softmax(-1).tril()
    future = torch.ones(tokens, tokens, dtype=torch.bool, device=keys.device).triu(1)
    masked = scores.masked_fill(future, -torch.inf).softmax(-1)
    return past / past.sum(-1, keepdim=True), masked
"""
RIGHT, WRONG = 0.5, 0.25
Grade = Callable[..., SubmissionRecord]


def write(lines: str = "pass", power: float = WRONG, before: str = "") -> str:
    body = BODY.format(power=power, middle=lines.replace("\n", "\n    "))
    head = "import os, sys, threading\nimport torch\n"
    return f"{head}{before}\ndef causal_weights(queries, keys):{body}"


@pytest.fixture
def grade(grade_text: GradeText) -> Grade:
    return partial(grade_text, settings=Settings(exercise=CAUSAL))


def get_printed(record: SubmissionRecord) -> list[str]:
    return [p.printed for p in record.properties if p.printed]


def strip(record: SubmissionRecord) -> SubmissionRecord:
    """What a submission that prints nothing would get."""
    bare = tuple(replace(p, printed="") for p in record.properties)
    return replace(record, properties=bare, notes=(), source=(), seconds=0.0)


# ------------------------------------------------------------------------ what is shown


def test_prints_are_those_of_the_case_that_is_shown(grade: Grade) -> None:
    record = grade(write("print('scores', tuple(scores.shape))"))
    [printed] = get_printed(record)
    [failed] = [p for p in record.properties if p.printed]
    assert failed.counterexample is not None
    tokens = failed.counterexample.case["tokens"]
    assert printed.splitlines()[0] == f"scores ({tokens}, {tokens})"
    assert strip(record) == strip(grade(write()))


def test_prints_change_no_right_answer_and_are_not_shown(grade: Grade) -> None:
    record = grade(write("print(scores)", RIGHT))
    assert record.status == "passed" and not get_printed(record)


def test_nothing_is_shown_if_nothing_was_printed(grade: Grade) -> None:
    record = grade(write("print('to the other', file=sys.stderr)"))
    assert not get_printed(record)
    assert "printed" not in text.render(build_report([record]))


def test_a_crash_shows_what_was_printed_before_it(grade: Grade) -> None:
    record = grade(write("print('before')\nscores.nonsense"))
    assert [p.printed for p in record.properties if p.status == "crashed"] == ["before"]
    assert "    printed   before\n" in text.render(build_report([record]))


def test_the_same_crash_is_run_once_more_only_once() -> None:
    first, second, third, fourth, *rest = ALL
    case, crash = Case(), SubmissionFailed(Status.CRASHED, "KeyError: 1")
    endless = SubmissionFailed(Status.TIMED_OUT, "took more than 3 s")
    violation = Violation(ViolationKind.VALUE, "1", "2", "output", "", "", "")
    verdicts = [
        Verdict(first, Status.CRASHED, 1, case, failure=crash),
        Verdict(second, Status.CRASHED, 1, case, failure=crash),
        Verdict(third, Status.TIMED_OUT, 1, case, failure=endless),
        *(Verdict(each, Status.FAILED, 1, case, violation) for each in (fourth, *rest[:20])),
    ]
    listed = [v.property for v in list_failures(verdicts, set(ALL) - {fourth})]
    assert listed == [first, *rest[: MAX_FAILURES - 1]]


def test_few_failures_are_run_once_more(grade: Grade) -> None:
    body = "print('a')\nscores = torch.rand_like(scores) if tokens % 2 else scores"
    record = grade(write(body))
    assert 0 < len(get_printed(record)) <= MAX_FAILURES


def test_a_notebook_shows_them_too() -> None:
    namespace: dict[str, object] = {}
    exec(write("print('scores', 1)"), namespace)
    result = check_in_namespace(namespace["causal_weights"], make_request(CAUSAL), namespace)
    assert "    printed   scores 1" in str(result)
    assert "Your code printed on this input" in result._repr_html_()


def test_they_are_in_every_form_and_survive_json(grade: Grade) -> None:
    record = grade(write("print('<b>scores</b>')"))
    report = build_report([record])
    assert from_json(to_json(report)) == report
    assert "    printed   <b>scores</b>\n" in text.render(report)
    page = html.render_page(record, report)
    assert "&lt;b&gt;scores&lt;/b&gt;" in page and "<b>scores</b>" not in page


# ------------------------------------------------------------------------------ hostile

HOSTILE = {
    "escapes": r"print('\x1b[2J\x1b]0;t\x07\x9b31m\r\b')",
    "direction": r"print('\u202e\u2066 right \u200f')",
    "surrogates": r"print('\ud800'); sys.stdout.write('\udfff')",
    "verdicts": r"print('ada.py  causal_weights  67 / 67  passed\n\n1 result: 1 passed')",
    "rows": r"print('\n  Fails: nothing\n    expected  1\n    got       1')",
    "commands": r"print('::error file=x::y\n##[group]z\n  ::set-output name=a::b')",
    "many lines": r"print('\n' * 100_000)",
    "a long line": r"print('x' * 50_000_000)",
    "tabs": r"print('\t' * 2000)",
    "empty texts": r"any(print(end='') for _ in range(10_000))",
    "descriptors": r"os.write(1, b'1' * 4096); os.write(2, b'2'); print('a')",
    "a closed stream": r"print('a'); sys.stdout.close()",
    "closed descriptors": r"print('a'); os.closerange(1, 3)",
    "another stream": r"sys.stdout = open(os.devnull, 'w'); print('a')",
    "a tampered log": r"print('a'); sys.stdout.log.text = 'x' * 10**7; sys.stdout.log.length = -1",
    "a huge length": r"print('a'); sys.stdout.log.length = 10 ** 400",
    "a thread": r"threading.Thread(target=print, args=('a',)).start()",
}  # fmt: skip


@pytest.fixture
def silent(grade: Grade) -> SubmissionRecord:
    return strip(grade(write()))


@pytest.mark.confined
@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_hostile_prints_forge_and_break_nothing(
    grade: Grade, silent: SubmissionRecord, body: str
) -> None:
    record = grade(write(body))
    assert strip(record) == silent
    for printed in get_printed(record):
        assert len(printed) <= MAX_PRINTED + 50
        assert printed.count("\n") <= MAX_PRINTED_LINES
    report = build_report([record])
    for shown in (text.render(report), text.render(report, "--verbose")):
        assert not UNSAFE.search(shown)
        left = [line for line in shown.splitlines() if line[:1].strip()]
        assert [line for line in left if "causal_weights" in line] == [left[0]]
        assert "1 result" not in "".join(left)
        assert not [line for line in shown.splitlines() if line.lstrip().startswith("::")]
        assert "##[" not in shown
        assert sum(line.startswith("    expected  ") for line in shown.splitlines()) <= len(
            [p for p in record.properties if p.status == "failed"]
        )
    assert not UNSAFE.search(html.render_page(record, report))


@pytest.mark.confined
@pytest.mark.parametrize("log", ["text = object()", "length = 'many'", "take = print"])
def test_whoever_breaks_the_log_breaks_only_their_own_answer(
    grade: Grade, silent: SubmissionRecord, log: str
) -> None:
    record = grade(write(f"print('a'); sys.stdout.log.{log}"))
    assert record.error is None and record.score <= silent.score and not get_printed(record)
    assert not [note for note in record.notes if note.kind == "fault"]


def test_a_process_that_ends_when_it_is_asked_again_keeps_its_verdicts(
    grade: Grade, silent: SubmissionRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[PrintsReply] = []
    real = Session.take_prints

    def take(session: Session) -> PrintsReply:
        if taken:  # the next call is for the prints alone
            session.close()
            raise SubmissionFailed(Status.CRASHED, "its process ended")
        taken.append(real(session))
        return taken[0]

    monkeypatch.setattr(Session, "take_prints", take)
    record = grade(write("print('a')"))
    assert taken and strip(record) == silent and not get_printed(record)


# ------------------------------------------------------------------------------- bounds


@pytest.mark.parametrize(
    ("reply", "shown"),
    [
        (PrintsReply("", 0), ""),
        (PrintsReply("a\nb\n", 4), "a\nb"),
        (PrintsReply("x" * 2000, 2000), "x" * 2000),
        (PrintsReply("x" * 2000, 2001), "x" * 2000 + "\n[… 1 more characters]"),
        (PrintsReply("a\n" * 21, 42), "a\n" * 20 + "[… 3 more characters]"),
        (PrintsReply("a\n" * 19 + "a", 39), "a\n" * 19 + "a"),
        (PrintsReply("x" * 9000, -5), "x" * 2000),
        (PrintsReply("x" * 2000, 10**18), "x" * 2000 + "\n[… many more characters]"),
    ],
)
def test_prints_are_bounded_and_say_how_much_is_left_out(reply: PrintsReply, shown: str) -> None:
    assert shorten_prints(reply) == shown
