"""A course file says what it means, and what is wrong with one is a line."""

import os
from pathlib import Path

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader.report.course_file import (
    MAX_BYTES,
    NO_COURSE_FILE,
    BadCourseFile,
    CourseFile,
    find_course_file,
    read_course_file,
)
from headcheck.grader.report.feedback import FULL_FEEDBACK, Feedback, FeedbackLevel
from headcheck.grader.report.rubric import Criterion
from headcheck.grader.run import make_settings
from headcheck.properties import families
from headcheck.properties.property import PropertyGroup
from headcheck.properties.terms.depth import Depth


def read(folder: Path, text: str | bytes) -> CourseFile:
    path = folder / "headcheck.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_course_file(path)


def assert_refused(folder: Path, text: str | bytes, problem: str) -> None:
    """In one line, with the number of the line in the file."""
    with pytest.raises(BadCourseFile) as caught:
        read(folder, text)
    assert str(caught.value).startswith(f"{folder / 'headcheck.toml'}, line {problem}")
    assert "\n" not in str(caught.value)


def test_an_empty_file_changes_nothing_but_that_there_is_one(tmp_path: Path) -> None:
    assert read(tmp_path, "") == CourseFile(path=tmp_path / "headcheck.toml")
    assert read_course_file(None) == NO_COURSE_FILE


def test_a_file_has_points_rounding_and_a_level(tmp_path: Path) -> None:
    points = "[points.causal_attention]\nvalues = 50\n"
    found = read(tmp_path, f'round = 0.5\nfeedback = "message"\n{points}')
    assert found.points == {"causal_attention": {"values": 50}}
    assert found.rounding == 0.5
    assert found.feedback == Feedback(FeedbackLevel.MESSAGE)


def test_a_file_says_where_everything_is_asked(tmp_path: Path) -> None:
    assert read(tmp_path, "").depth is None
    assert read(tmp_path, "thorough = false\n").depth is Depth.USUAL
    assert read(tmp_path, "thorough = true\n").depth is Depth.THOROUGH
    some = read(tmp_path, 'thorough = ["kv_cache"]\n')
    assert some.depth is Depth.USUAL
    assert some.thorough == {"kv_cache"}
    settings = make_settings(course=some)
    asked = [settings.get_depth(BY_SLUG[slug]) for slug in ("kv_cache", "rope")]
    assert asked == [Depth.THOROUGH, Depth.USUAL]
    assert make_settings(course=some, thorough=True).get_depth(BY_SLUG["rope"]) is Depth.THOROUGH


def test_a_file_has_rubrics_and_weights_of_single_students(tmp_path: Path) -> None:
    assert read(tmp_path, "").rubrics == {}
    assert read(tmp_path, "rubric = {}").rubrics == {}
    told = 'style = { points = 4, text = "It is short." }'
    rubric = f"[rubric.rope]\n{told}\nextra = {{ bonus = 1.239 }}\n"
    found = read(tmp_path, f"{rubric}[weights.rope]\n17 = {{ style = 0 }}\n").rubrics
    assert found is not None
    style, extra = found["rope"].criteria
    assert style == Criterion("style", 4, "It is short.")
    assert extra == Criterion("extra", 1.24, bonus=True)
    asked = [("17", "style"), ("17", "extra"), ("18", "style")]
    assert [found["rope"].get_weight(*each) for each in asked] == [0, 1, 1]


def test_levels_are_set_by_property_or_group(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        '[feedback]\nlevel = "message"\nhidden = ["dropout", "bfloat16_runs"]\n'
        '[feedback.levels]\nthe_output_is_finite = "case"\ncontract = "full"\n',
    ).feedback
    assert found is not None
    dropout = {claim.name for claim in families.ALL if claim.group is PropertyGroup.DROPOUT}
    assert found.hidden == dropout | {"bfloat16_runs"}
    assert found.get_level("the_output_is_finite") is FeedbackLevel.CASE
    assert found.get_level("it_can_be_constructed") is FeedbackLevel.FULL
    assert found.get_level("it_equals_the_equation") is FeedbackLevel.MESSAGE


POINTS, VALUES = "[points.causal_attention]\n", "`points.causal_attention.values`"
ROPE, STYLE = "[rubric.rope]\n", "`rubric.rope.style`"
ADA = f"{ROPE}style = {{ points = 4 }}\n[weights.rope]\nada = "


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("round = ", "1: is not TOML: Invalid value"),
        (
            "thorough = 1",
            '1: `thorough` must be true, or a list of exercises, as in ["kv_cache"], not 1',
        ),
        ('thorough = ["kv_cash"]', "1: there is no exercise 'kv_cash'; did you mean 'kv_cache'?"),
        ("\n\nround", "3: is not TOML: "),
        (b"round = 1 # \xff", "1: is not UTF-8: save it as such"),
        ("a = " + "[" * 5000, "1: is not TOML: it is nested too deeply"),
        ("#" * (MAX_BYTES + 1), "1: is no file of at most 64 KiB"),
        ("\nround = 0", "2: scores are rounded to hundredths of a point or multiples of them, "),
        ("round = 0.125", "1: scores are rounded to hundredths of a point or multiples"),
        ("round = nan", "1: scores are rounded to hundredths of a point or multiples"),
        ("round = inf", "1: scores are rounded to hundredths of a point or multiples"),
        ("round = true", "1: `round` must be a number, as in 0.5, not True"),
        ("rounds = 1", "1: there is no key 'rounds'; did you mean 'round'?"),
        ("x = 1", "1: there is no key 'x'; there are alone, deadlines, feedback, groups, "),
        ('language = "de"', "1: there is no key 'language' any more: reports are in English"),
        (
            "[causal_attention]\nvalues = 1",
            "1: there is no key 'causal_attention'; points are in a table [points.cau",
        ),
        ("points = 3", "1: `points` must be a table of exercises: write [points.SLUG], not 3"),
        ("[points.zzz]\nvalues = 1", "1: there is no exercise 'zzz'; see `headcheck list`"),
        ("[points.'../..']\nvalues = 1", "1: there is no exercise '../..'; see `headcheck list`"),
        (
            "[points]\ncausal_atention.values = 1",
            "2: there is no exercise 'causal_atention'; did you mean 'causal_attention'?",
        ),
        (
            "[points]\ncausal_attention = 3",
            "2: `points.causal_attention` must be a table of groups and points, as in values = 40, "
            "not 3",
        ),
        (f"{POINTS}\nvalue = 1", "3: there is no group 'value'; did you mean 'values'?"),
        (f"{POINTS}values = -1", f"2: {VALUES} must be a number from 0 to 1000000, not -1"),
        (f"{POINTS}values = 1e308", f"2: {VALUES} must be a number from 0 to 1000000, not 1e+308"),
        *((f"{POINTS}values = {x}", f"2: {VALUES} must be") for x in ("true", "nan", "inf", "'x'")),
        ("rubric = 3", "1: `rubric` must be a table of exercises: write [rubric.SLUG], not 3"),
        ("[rubric.rop]", "1: there is no exercise 'rop'; did you mean 'rope'?"),
        ("[rubric]\nrope = 4", "2: `rubric.rope` must be a table of criteria, as in style = {"),
        (f"{ROPE}\nstyle = 4", f"3: {STYLE} must be a table, as in {{ points = 4 }}, not 4"),
        (
            f"{ROPE}'a comment' = {{ points = 4 }}",
            "2: 'a comment' is no name for a criterion: write up to 40 letters a to z, digits",
        ),
        (
            f"{ROPE}name = {{ points = 4 }}",
            "2: 'name' is a column of the sheet of marks: choose another name",
        ),
        (f"{ROPE}'=1' = {{ points = 4 }}", "2: '=1' is no name for a criterion"),
        (f"{ROPE}style = {{ point = 4 }}", "2: there is no key 'point'; did you mean 'po"),
        (
            f"{ROPE}style = {{ text = 'It is short.' }}",
            "2: 'style' needs either `points` or, if it is a bonus, `bonus`",
        ),
        (f"{ROPE}style = {{ points = 4, bonus = 4 }}", "2: 'style' needs either `points`"),
        (
            f"{ROPE}style = {{ points = 0 }}",
            "2: `rubric.rope.style.points` must be a number from 0.01 to 1000000, not 0",
        ),
        (f"{ROPE}style = {{ points = nan }}", "2: `rubric.rope.style.points` must be a nu"),
        (f"{ROPE}style = {{ bonus = inf }}", "2: `rubric.rope.style.bonus` must be a num"),
        (f"{ROPE}style = {{ points = true }}", "2: `rubric.rope.style.points` must be a n"),
        (
            f"{ROPE}style = {{ points = 4, text = 4 }}",
            "2: `rubric.rope.style.text` must be a sentence, not 4",
        ),
        (
            "[weights.rope]\nada = { style = 0 }",
            "1: there is no [rubric.rope] to which these belong",
        ),
        (f"{ADA}{{ stile = 0 }}", "4: there is no criterion 'stile'; did you mean 'style'?"),
        (
            f"{ADA}{{ style = -1 }}",
            "4: `weights.rope.ada.style` must be a number from 0 to 100, not -1",
        ),
        (
            f"{ADA}0",
            "4: `weights.rope.ada` must be a table of criteria and factors, as in { style = 0 }",
        ),
        ("feedback = 'mesage'", "1: there is no level 'mesage'; did you mean 'message'?"),
        ("feedback = 3", "1: there is no level 3; there are case, full, message, name"),
        ("[feedback]\nlevel = 3", "2: there is no level 3; there are case, full, message, name"),
        ("[feedback.levels]\nvalues = 'all'", "2: there is no level 'all'; there are case, full"),
        ("[feedback]\nhiden = []", "2: there is no key 'hiden'; did you mean 'hidden'?"),
        ("[feedback]\nprints = 'no'", "2: `feedback.prints` must be true or false, not 'no'"),
        (
            "[feedback]\nhidden = 'dropout'",
            "2: `feedback.hidden` must be a list of names, as in [\"dropout\"], not 'dropout'",
        ),
        ("[feedback]\nlevels = 'name'", "2: `feedback.levels` must be a table, not 'name'"),
        (
            "[feedback]\nhidden = [\n'droput']",
            "3: there is no check or group 'droput'; did you mean 'dropout'?",
        ),
        (
            "[feedback.levels]\nzzz = 'name'",
            "2: there is no check or group 'zzz'; docs/properties.md lists them",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_line(
    tmp_path: Path, written: str | bytes, problem: str
) -> None:
    assert_refused(tmp_path, written, problem)


def test_a_hostile_name_or_text_is_a_line_without_control_characters(tmp_path: Path) -> None:
    folder = tmp_path / "\x1b[2Jeve\nroot"
    folder.mkdir()
    with pytest.raises(BadCourseFile) as caught:
        read(folder, '"\\u001b[1m\\n" = 1')
    assert not {"\x1b", "\n"} & {*str(caught.value)}


@pytest.mark.parametrize("kind", ["folder", "pipe", "dangling"])
def test_what_is_no_file_is_reported_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "headcheck.toml"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("nowhere")
    with pytest.raises(BadCourseFile, match=r"toml, line 1: (is no|there is no such) file"):
        read_course_file(path)


def test_it_is_found_beside_the_work(tmp_path: Path) -> None:
    assert find_course_file(None, tmp_path) is None
    read(tmp_path, "")
    assert find_course_file(None, tmp_path) == tmp_path / "headcheck.toml"
    assert find_course_file(None) is None


def test_students_may_ask_for_less_and_not_for_more(tmp_path: Path) -> None:
    silent = read(tmp_path, "round = 1")
    assert silent.limit(None) == (None, "")
    assert silent.limit(FULL_FEEDBACK) == (FULL_FEEDBACK, "")
    exam = read(tmp_path, 'feedback = "message"')
    assert exam.limit(None) == (Feedback(FeedbackLevel.MESSAGE), "")
    assert exam.limit(Feedback(FeedbackLevel.NAME)) == (Feedback(FeedbackLevel.NAME), "")
    told, why = exam.limit(Feedback(FeedbackLevel.CASE))
    assert told == Feedback(FeedbackLevel.MESSAGE)
    assert why == f"{exam.path} lets students see less than --feedback case, and counts"
