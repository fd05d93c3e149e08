"""Answers that nobody has seen are other ones for every seed, run, and repeat as in a class."""

import random

from benchmarks.spending import Usage
from benchmarks.unseen import (
    GradingTime,
    draw_by_zipf,
    draw_unseen,
    format_rows,
    list_right_sources,
)
from benchmarks.unseen import runs as runs_once


def test_unseen_answers_run_and_are_no_right_ones() -> None:
    drawn = draw_unseen(3, random.Random(3))
    assert len(set(drawn)) == 3
    assert all(map(runs_once, drawn))
    assert not set(drawn) & set(list_right_sources())


def test_a_seed_draws_the_same_answer_and_another_one_another() -> None:
    first, again, other = (draw_unseen(1, random.Random(seed)) for seed in (1, 1, 2))
    assert first == again
    assert not set(first) & set(other)


def test_what_crashes_or_returns_nothing_does_not_run() -> None:
    source = list_right_sources()[0]
    assert runs_once(source)
    assert not runs_once(source.replace("return", "return None and"))
    assert not runs_once("import nowhere")


def test_answers_repeat_by_zipf_s_law() -> None:
    drawn = draw_by_zipf(["a", "b", "c", "d"], 10_000, random.Random(0))
    shares = [drawn.count(name) / 10_000 for name in "abcd"]
    # 12/25, 6/25, 4/25 and 3/25; four standard deviations are 0.02 at most.
    assert all(
        abs(share - part / 25) < 0.02 for share, part in zip(shares, (12, 6, 4, 3), strict=True)
    )


def test_another_version_is_told_in_times_of_this_one() -> None:
    ours = GradingTime([1.0, 2.0], Usage(wall=3.0, cpu=4.0, largest=0), as_class=False)
    theirs = GradingTime([2.0, 4.0], Usage(wall=6.0, cpu=12.0, largest=0), as_class=False)
    assert format_rows("unseen", [ours, theirs]) == [
        "| unseen | 1.50 | 1.50 | 2.00 | 2.00 | 2.00 |",
        "| unseen, by the other version | × 2.00 | × 2.00 | × 2.00 | × 2.00 | × 3.00 |",
    ]


def test_of_a_class_the_time_of_all_is_told() -> None:
    taken = GradingTime([1.0, 2.0], Usage(wall=3.0, cpu=4.0, largest=0), as_class=True)
    assert format_rows("a class", [taken]) == [
        "| a class | 1.50 | 1.50 | 2.00 | 2.00 | 2.00 | 3.00 |"
    ]
