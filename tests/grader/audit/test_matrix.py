"""The audit: what it counts, what it calls unclean, and how it shows it."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from headcheck.exercises import ALL, BY_SLUG
from headcheck.exercises.answers import Answer, AnswerKind, find_answer, list_answers
from headcheck.grader.audit import matrix
from headcheck.grader.audit import page as shown
from headcheck.grader.audit.matrix import AnswerResult, Audit, load_answers, run_audit
from headcheck.grader.grading.search_limit import SearchLimit
from headcheck.grader.ui.cli import cli

EXERCISE = BY_SLUG["linear_layer"]
CLAIMS = [claim.name for claim in EXERCISE.properties]


def judged(kind: str, name: str, *broken: str, not_tried: tuple[str, ...] = ()) -> AnswerResult:
    answer = Answer(EXERCISE.slug, AnswerKind(kind), name, f"It is {name}.", "")
    return AnswerResult(answer, broken, not_tried, (), dict.fromkeys(broken, 0.25))


WRONG, RIGHT = ["upside_down", "inside_out", "late"], ["plain", "fancy"]
KILLED = judged("wrong", WRONG[0], CLAIMS[0], not_tried=(CLAIMS[1],))
SURVIVOR = judged("wrong", WRONG[1])
ACCEPTED = judged("right", RIGHT[0])
ACCUSED = judged("right", RIGHT[1], CLAIMS[2])


def test_a_survivor_and_a_false_alarm_are_unclean() -> None:
    found = Audit((EXERCISE,), (KILLED, SURVIVOR, ACCEPTED, ACCUSED))
    assert found.survivors == [SURVIVOR]
    assert found.false_alarms == [ACCUSED]
    assert not found.clean
    assert Audit((EXERCISE,), (KILLED, ACCEPTED)).clean
    assert not Audit((EXERCISE,), (KILLED, SURVIVOR)).clean
    assert not Audit((EXERCISE,), (KILLED, ACCUSED)).clean


def test_a_config_has_what_the_answer_s_own_config_has_by_default() -> None:
    exercise = BY_SLUG["causal_self_attention"]
    subject = matrix.load_subject(find_answer(exercise, "own_config_with_a_flag"))
    sizes = {"n_head": 2, "n_embd": 8, "bias": True}
    assert subject.construct(exercise.contract.name, {"config": sizes}, seed=0).list_modes()


def test_kills_are_counted_on_wrong_answers_alone() -> None:
    found = Audit((EXERCISE,), (KILLED, ACCUSED, judged("wrong", WRONG[2], CLAIMS[0], CLAIMS[3])))
    assert found.kills == {CLAIMS[0]: 2, CLAIMS[3]: 1}
    assert found.sole_kills == {CLAIMS[0]: 1}
    assert found.seconds == {CLAIMS[0]: 0.5, CLAIMS[2]: 0.25, CLAIMS[3]: 0.25}


def test_property_nothing_violates_is_idle_unless_justified() -> None:
    assert Audit((EXERCISE,), (KILLED,)).idle == [], "one exercise alone cannot tell"
    full = Audit(ALL, (KILLED,))
    idle = {claim.name for claim in full.idle}
    assert CLAIMS[0] not in idle
    assert CLAIMS[1] in idle
    assert not {claim.name for claim in full.properties if claim.redundant_because} & idle
    assert not full.clean


def test_every_answer_is_listed_with_its_summary() -> None:
    found = load_answers(EXERCISE)
    assert found[0].name == "solution"
    assert found[1:] == [*list_answers(EXERCISE, "right"), *list_answers(EXERCISE, "wrong")]
    assert all(a.description for exercise in ALL for a in load_answers(exercise))


def test_the_text_names_what_is_wrong() -> None:
    text = shown.render_text(Audit((EXERCISE,), (KILLED, SURVIVOR, ACCEPTED, ACCUSED)))
    assert f"survivor     linear_layer/{WRONG[1]}: {SURVIVOR.answer.description}\n" in text
    assert f"false alarm  linear_layer/{RIGHT[1]}: {CLAIMS[2]}\n" in text
    assert "Not clean: 1 of 2 wrong answers survive, 1 of 2 right ones are accused" in text


def test_the_json_is_the_whole_matrix() -> None:
    told = json.loads(shown.to_json(Audit((EXERCISE,), (KILLED, ACCEPTED))))
    assert (told["format"], told["clean"], told["survivors"]) == (1, True, [])
    assert told["answers"][0]["broken"] == [CLAIMS[0]]
    assert told["answers"][0]["not_tried"] == [CLAIMS[1]]
    assert told["claims"][0] == {
        "name": CLAIMS[0], "kills": 1, "alone": 1, "search": 0, "seconds": 0.25,
    }  # fmt: skip


def test_what_a_search_adds_is_counted_on_wrong_answers_and_an_alarm_on_right_ones() -> None:
    killed = replace(KILLED, found=(CLAIMS[2],), generated=40)
    accepted = replace(ACCEPTED, generated=40)
    found = Audit((EXERCISE,), (killed, replace(SURVIVOR, generated=40), accepted))
    assert found.search_kills == {CLAIMS[2]: 1}
    text = shown.render_text(found)
    rows = [row.split() for row in text.splitlines()]
    assert [CLAIMS[2], "0", "1"] in rows
    sentence = (
        "On 120 generated cases the search failed 1 more checks on 1 of 2 wrong answers, and 0"
    )
    assert f"{sentence} on 1 right ones.\n" in text
    assert "search broke" not in shown.render_text(Audit((EXERCISE,), (KILLED,)))
    assert not found.false_alarms
    accused = Audit((EXERCISE,), (killed, replace(accepted, found=(CLAIMS[2],))))
    assert accused.false_alarms and not accused.clean
    assert f"false alarm  linear_layer/{RIGHT[0]}: {CLAIMS[2]}\n" in shown.render_text(accused)


def test_search_finds_what_the_fixed_cases_miss() -> None:
    source = EXERCISE.solution.replace(
        "return x @", "return (1 + (300 < x.shape[-2] < 1000)) * x @"
    )
    assert source != EXERCISE.solution
    late = Answer(EXERCISE.slug, AnswerKind.WRONG, "late", "It is wrong when long.", source)
    found = run_audit([EXERCISE], [late], jobs=1, limit=SearchLimit(cases=100))
    [result] = found.results
    assert (result.broken, result.generated) == ((), 100)
    assert "it_equals_the_equation" in result.found


def test_page_shows_every_answer_and_every_property() -> None:
    page = shown.render_html(Audit((EXERCISE,), (KILLED, SURVIVOR)))
    assert page.count('<td class="broken">') == 1
    assert page.count('<td class="untried">') == 1
    assert page.count('class="trouble"') == 1
    assert all(f"<span>{claim}</span>" in page for claim in CLAIMS)


@pytest.mark.whole
def test_a_small_audit_in_a_process_beside_this_one() -> None:
    found = run_audit([EXERCISE], load_answers(EXERCISE), jobs=1)
    assert len(found.results) == len(load_answers(EXERCISE))
    assert found.clean
    assert all(j.seconds for j in found.results)


@pytest.mark.parametrize(("slug", "meant"), [("linear_layr", "linear_layer"), ("no", "")])
def test_an_exercise_that_does_not_exist_is_refused(slug: str, meant: str) -> None:
    result = CliRunner().invoke(cli, ["audit", slug])
    assert meant in str(result.exception)


@pytest.mark.whole
def test_exit_code_shows_whether_the_audit_is_clean() -> None:
    result = CliRunner().invoke(cli, ["audit", "linear_layer", "--jobs", "1"])
    assert result.exit_code == 0
    assert "Clean: " in result.output
