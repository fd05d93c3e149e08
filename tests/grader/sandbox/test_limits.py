"""Limits: where they come from, in which order, and that the command says what they are."""

from dataclasses import asdict, replace

import pytest

from headcheck.exercises import ALL, BY_SLUG, Exercise
from headcheck.grader.grading.settings import Settings
from headcheck.grader.report.records import Report, build_report
from headcheck.grader.sandbox.limits import Limits
from headcheck.grader.ui import cli, options

ONE = BY_SLUG["causal_attention"]
STRICT = replace(ONE, limits={"call_s": 1, "threads": 2})


def test_an_exercise_goes_before_the_rest_and_the_command_line_before_it() -> None:
    base = Settings(limits=Limits(cpu_s=7))
    assert base.get_limits(None) == base.get_limits(ONE) == Limits(cpu_s=7)
    assert base.get_limits(STRICT) == Limits(cpu_s=7, call_s=1, threads=2)
    insisted = replace(base, limit_overrides={"call_s": 3})
    assert insisted.get_limits(STRICT) == Limits(cpu_s=7, call_s=3, threads=2)
    assert insisted.get_limits(None) == Limits(cpu_s=7, call_s=3)


@pytest.mark.parametrize("exercise", ALL, ids=lambda e: e.slug)
def test_the_limits_of_an_exercise_exist(exercise: Exercise) -> None:
    limits = Limits().with_overrides(exercise.limits)
    assert {name: getattr(limits, name) for name in exercise.limits} == dict(exercise.limits)


def test_a_limit_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(TypeError, match="patience"):
        Limits().with_overrides({"patience": 3})


def test_the_command_names_the_true_defaults() -> None:
    fields = asdict(Limits())
    for limit in options.LIMIT_OPTIONS:
        assert limit.default << (20 if limit.mebibytes else 0) == fields.pop(limit.field)
    assert not fields


def test_limits_that_are_named_reach_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Settings, bool]] = []

    def grade(paths: object, chosen: Settings, *, trusted: bool, **_: object) -> Report:
        seen.append((chosen, trusted))
        return build_report([])

    monkeypatch.setattr("headcheck.grader.run.grade_paths", grade)
    for words in (["check", "x.py"], ["grade", "x.py", "--memory", "64", "--trusted"]):
        with pytest.raises(SystemExit):
            cli.cli(words, standalone_mode=False)
    assert [(chosen.limit_overrides, trusted) for chosen, trusted in seen] == [
        ({}, False),
        ({"memory": 64 << 20}, True),
    ]
