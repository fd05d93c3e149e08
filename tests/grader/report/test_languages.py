"""Reports in other languages: the catalogues fit the source, and records stay as they are."""

import re
import time
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog, Message
from babel.messages.mofile import read_mo
from click.testing import CliRunner

from headcheck.exercises import ALL, BY_SLUG
from headcheck.exercises.answers import list_answers
from headcheck.grader.course.export.gradebook import format_feedback
from headcheck.grader.course.intake.roster import Roster
from headcheck.grader.course.policy import NO_POLICY, Policy, make_policy
from headcheck.grader.course.results import compute_results
from headcheck.grader.course.store.records import GradedFile
from headcheck.grader.report.course_file import read_course_file
from headcheck.grader.report.languages import (
    ENGLISH,
    Language,
    UnknownLanguage,
    catalogues,
    find_language,
    get_language,
    list_languages,
)
from headcheck.grader.report.languages.catalogues import (
    find_catalogue,
    list_missing,
    load_catalogue,
    main,
)
from headcheck.grader.report.languages.extraction import list_source
from headcheck.grader.report.languages.messages import read_messages
from headcheck.grader.report.languages.pages import read_page
from headcheck.grader.report.languages.phrases import SLOT, fill
from headcheck.grader.report.records import DiagnosisRecord, ErrorRecord, NoteRecord, to_json
from headcheck.grader.report.render import github, html, text
from headcheck.grader.report.render.outcome import describe_outcome
from headcheck.grader.report.render.sanitise import sanitise
from headcheck.grader.report.render.view import make_view
from headcheck.grader.sandbox.grader_side.servers import ServerHandle
from headcheck.grader.ui.cli import cli
from headcheck.grader.ui.jupyter.checking import CheckResult
from headcheck.properties.violations.violation import SubmissionFailed
from tests.crashes.judging import crash, load_table
from tests.golden import texts
from tests.golden.bank import grade
from tests.grader.course.gradebooks import make_standing
from tests.grader.report.records import (
    make_crashed,
    make_failed,
    make_property,
    make_report,
    make_submission,
)

SLUG = "self_attention_v2"
CODES = ("de", "es")
CLAIM = "The output equals the equation, computed in float64."
FOREIGN = re.compile(r"\b[A-Z]\w*(?:Error|Exception)\b: ")
"""the beginning of what Python and torch say, which stays as it is"""

by_code = pytest.mark.parametrize("code", CODES)


def list_messages(code: str) -> list[Message]:
    return [message for message in load_catalogue(code) if message.id]


def get_forms(value: str | list[str] | tuple[str, ...] | None) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value or ())


# --------------------------------------------------------------------------- catalogues


@by_code
def test_what_is_shipped_is_what_the_catalogue_says(code: str) -> None:
    shipped: Catalog = read_mo(BytesIO(find_catalogue(code).with_suffix(".mo").read_bytes()))
    again = "python -m headcheck.grader.report.languages.catalogues --compile"
    said = {get_forms(m.id): get_forms(m.string) for m in shipped if m.id}
    assert said == {get_forms(m.id): get_forms(m.string) for m in list_messages(code)}, again


@pytest.fixture(scope="module")
def source() -> set[str]:
    return list_source()


@by_code
def test_no_entry_is_stale(code: str, source: set[str]) -> None:
    assert [m.id for m in list_messages(code) if not set(get_forms(m.id)) <= source] == []


@by_code
def test_translations_have_the_slots_and_forms_of_the_source(code: str) -> None:
    for message in list_messages(code):
        forms, said = get_forms(message.id), get_forms(message.string)
        assert not message.fuzzy and all(said), message.id
        assert len(said) == len(forms), message.id
        for each in said:
            slots = [{*SLOT.findall(form), "n"} for form in forms]
            assert {*SLOT.findall(each), "n"} in slots, message.id
            assert sanitise(each) == each, message.id
            assert each[:1].isspace() == forms[0][:1].isspace(), message.id


@by_code
def test_all_that_a_report_on_the_exercise_says_is_translated(code: str) -> None:
    assert list_missing(BY_SLUG[SLUG], find_language(code)) == []


@by_code
def test_what_authors_of_wrong_answers_read_is_translated(code: str) -> None:
    language = find_language(code)
    told = [row for kind in texts.load_kinds(SLUG) for row in kind.text]
    rows = {row[10:].removeprefix("It stops: ") for row in told}
    rows |= {row[10:] for row in texts.load_legend(SLUG)}
    assert [row for row in rows if not FOREIGN.match(row) and not language.knows(row)] == []


@by_code
@pytest.mark.parametrize("table", ["crashes.toml", "unusual.toml"])
def test_explanations_of_crashes_are_translated(code: str, table: str) -> None:
    language = find_language(code)
    answers = [each for each in load_table(table).values() if each.exercise.startswith("self_")]
    failures = [failure for each in answers if (failure := crash(each)) is not None]
    assert failures and [line for line in map(explain, failures) if not language.knows(line)] == []


def explain(failure: SubmissionFailed) -> str:
    return str(failure.crash or "")


@pytest.mark.whole
def test_whole_reports_on_the_bank_are_translated(
    server: ServerHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [
        grade(server, SLUG, answer)
        for kind in ("wrong", "right")
        for answer in list_answers(BY_SLUG[SLUG], kind)
    ]
    unknown: set[str] = set()

    def read(language: Language, line: str) -> str:
        if line not in language.messages and not FOREIGN.search(line):
            unknown.update(each for each in line.split("\n") if not language.knows(each))
        return language.reader.read(line)

    monkeypatch.setattr(Language, "read", read)
    for code in CODES:
        language = find_language(code)
        text.render(make_report(*records), language=language)
        html.render_all(make_report(*records), language=language)
    assert unknown == set()


def test_the_tool_says_how_much_is_translated(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    main([SLUG, "de"])
    assert capsys.readouterr().out.strip() == ""
    main(["padding_mask", "es"])
    assert 'msgid "# Padding"\nmsgstr ""' in capsys.readouterr().out
    monkeypatch.setattr(catalogues, "EXERCISES", (BY_SLUG[SLUG], BY_SLUG["padding_mask"]))
    main([])
    _, ours, other = capsys.readouterr().out.splitlines()
    assert ours.split() == [SLUG, "100", "%", "100", "%"] and "100" not in other


# --------------------------------------------------------------------------- languages


def test_languages_are_found_by_their_codes() -> None:
    assert list_languages() == ("en", "de", "es")
    assert find_language("en") is ENGLISH and find_language("de") == find_language("de")
    assert get_language("tlh") is ENGLISH and get_language("es").code == "es"
    with pytest.raises(UnknownLanguage, match="no language 'tlh'; there are en, de, es"):
        find_language("tlh")
    with pytest.raises(UnknownLanguage, match="there are en, de, es"):
        find_language("../de")


def test_messages_are_read_from_a_compiled_catalogue() -> None:
    messages = read_messages(find_catalogue("de").with_suffix(".mo").read_bytes())
    assert messages[CLAIM].startswith("Die Ausgabe")
    assert messages["{n} result\0{n} results"] == "{n} Ergebnis\0{n} Ergebnisse"


def test_a_number_chooses_the_form() -> None:
    language = find_language("de")
    assert language.count("{n} result", "{n} results", 1) == "1 Ergebnis"
    assert language.count("{n} result", "{n} results", 0) == "0 Ergebnisse"
    assert language.read("1 token") == "1 Token" and language.read("2 tokens") == "2 Tokens"
    assert ENGLISH.count("{n} result", "{n} results", 2) == "2 results"


@pytest.mark.parametrize(
    ("english", "german"),
    [
        ("", ""),
        (CLAIM, "Die Ausgabe gleicht der Gleichung, berechnet in float64."),
        ("-0.1; 4 of 4 elements are off", "-0.1; 4 von 4 Elementen weichen ab"),
        ("0.5 ± 1e-06 at output[0, 1]", "0.5 ± 1e-06 an der Stelle output[0, 1]"),
        ("nothing changed (cell 4, line 26)", "nichts änderte sich (Zelle 4, Zeile 26)"),
        (
            "RuntimeError: no such thing (line 3). A matrix product lacks a transpose.",
            "RuntimeError: no such thing (Zeile 3). In einem Matrixprodukt fehlt eine "
            "Transposition.",
        ),
        ("a weight `output` of shape (1, 2)", "ein Gewicht `output` der Form (1, 2)"),
        ("nobody has translated this", "nobody has translated this"),
    ],
)
def test_what_is_known_of_a_text_is_translated(english: str, german: str) -> None:
    assert find_language("de").read(english) == german
    assert ENGLISH.read(english) == english


def test_a_page_without_translation_stays_as_it_is() -> None:
    for exercise in ALL:
        assert read_page(exercise.statement, ENGLISH) == exercise.statement
    shown = read_page(BY_SLUG[SLUG].statement, find_language("de"))
    assert "class SelfAttention_v2(nn.Module):" in shown and "**Konstruktor**" in shown


# --------------------------------------------------------------------------- reports

MISTAKE = DiagnosisRecord(
    "no_scale", "The scores are not divided by the root of the queries' width.", None, 12, 9, 9
)
WRONG = replace(
    make_submission(
        make_failed(CLAIM),
        make_property("Every number of the output is finite.", "contract"),
        make_crashed(
            "It leaves torch's settings alone: default dtype, gradients on or off, and so on."
        ),
        notes=(
            NoteRecord(
                "prints", "`forward` of `A` calls print 3 times; its answer is what it returns"
            ),
        ),
    ),
    diagnosis=(MISTAKE,),
)


@by_code
def test_a_report_is_in_the_language_and_its_record_is_not(code: str) -> None:
    language, report = find_language(code), make_report(WRONG)
    before = to_json(report)
    shown = text.render(report, language=language)
    assert all(
        line not in shown for line in (CLAIM, MISTAKE.sentence, "expected", "failed", "points:")
    )
    assert (
        language.read(CLAIM)[:20] in shown and "0.5 ± 1e-06" in shown and "ValueError: no" in shown
    )
    page = html.render_page(WRONG, report, language=language)
    assert f'<html lang="{code}">' in page and language.read(MISTAKE.sentence) in page
    assert 'class="status failed"' in page  # what a style sheet and a script look for
    assert f'lang="{code}"' in html.render_fragment(WRONG, language)
    log = github.render(report, lambda *_: None, language)
    assert log.startswith("::error file=") and language.say("The mistake") in log
    assert describe_outcome(WRONG, language) == (language.read(MISTAKE.sentence),)
    assert to_json(report) == before and make_view(WRONG, language).status == "failed"


def test_the_environment_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = text.render(make_report(WRONG))
    for name in ("LANG", "LANGUAGE", "LC_ALL", "LC_MESSAGES"):
        monkeypatch.setenv(name, "de")
    assert text.render(make_report(WRONG)) == shown and "Fails: " in shown


def test_rows_hang_below_their_text_in_every_language() -> None:
    failure = make_failed(CLAIM, got="-0.1; 4 of 4 elements are off, " * 6)
    shown = text.render(make_report(make_submission(failure)), "--verbose", find_language("de"))
    lines = shown.split("\n")
    at = next(i for i, line in enumerate(lines) if line.startswith("    erhalten  "))
    assert lines[at + 1].startswith(" " * 14) and lines[at + 1][14] != " "


def test_feedback_in_gradebooks_is_in_the_language_of_the_course() -> None:
    result = make_standing("s1", WRONG, language="es")
    assert format_feedback([result]) == find_language("es").read(MISTAKE.sentence)
    gone = replace(result, language="tlh")  # it was there when the run was made
    assert format_feedback([gone]) == MISTAKE.sentence


def test_a_check_in_a_notebook_is_in_the_language_of_the_course() -> None:
    language = find_language("de")
    result = CheckResult(WRONG, language)
    assert language.read(CLAIM)[:20] in str(result) and language.read(CLAIM)[:20] in result.verbose
    assert 'lang="de"' in result._repr_html_()


def test_the_course_file_sets_the_language_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "headcheck.toml").write_text('language = "de"\n')
    rules = read_course_file(tmp_path / "headcheck.toml")
    assert make_policy(rules, "week-1", Roster()).language == "de"
    assert NO_POLICY.language == "en"
    file = GradedFile(
        run=0,
        **dict.fromkeys(("student", "name", "email", "handle", "file", "content", "judged"), ""),
        attempt=1,
        late=False,
        submitted=None,
        kind="py",
        records=(WRONG,),
    )
    results = compute_results([file], policy=Policy(language="de"))
    assert [each.language for each in results] == ["de"]


# --------------------------------------------------------------------------- hostile


@pytest.mark.parametrize("attack", ["{n}", "{0.__class__}", "%(n)s", "{question}", "{where}{what}"])
def test_what_a_submission_writes_is_never_a_template(attack: str) -> None:
    assert fill("{a} and {b}", {"a": "{b}", "b": attack}) == f"{{b}} and {attack}"
    language = find_language("de")
    record = make_submission(
        make_failed(CLAIM, got=f"{attack}; {attack} of 4 elements are off"),
        error=ErrorRecord("import", f"ValueError: {attack}", None, 3),
        file=f"{attack}.py",
    )
    shown = text.render(make_report(record), language=language)
    assert shown.count(attack) >= 3
    assert language.read(f"a weight `{attack}` of shape (1, 2)").count(attack) == 1


def test_what_is_unsafe_stays_escaped() -> None:
    language = find_language("es")
    evil = "a weight `\u202eevil\x1b[31m` of shape (1, 2)"
    shown = text.render(
        make_report(make_submission(make_failed(CLAIM, got=evil))), language=language
    )
    assert "un peso `\\u202eevil\\x1b[31m` de forma (1, 2)" in shown
    hidden = make_failed(CLAIM, got="<b>nothing changed</b>")
    page = html.render_page(make_submission(hidden), make_report(), language=language)
    assert "<b>" not in page.split('class="message"')[1].split("</pre>")[0]


@pytest.mark.parametrize(
    "part", ["a is b, ", "`a` is (1, ", "1 of 2, 3 of 4; ", "the call changed it: ", ". ", "` ( "]
)
def test_reading_a_long_text_takes_no_long_time(part: str) -> None:
    language = find_language("de")
    evil = "\n".join([(part * 600)[:499]] * 8)
    start = time.process_time()
    language.read(evil)
    assert time.process_time() - start < 2


# --------------------------------------------------------------------------- commands


def test_show_and_hint_speak_the_language() -> None:
    shown = CliRunner().invoke(cli, ["show", SLUG, "--language", "de", "--checks"]).output
    assert "## Was geprüft wird" in shown and find_language("de").read(CLAIM) in shown
    shown = CliRunner().invoke(cli, ["hint", SLUG, "2", "--language", "es"]).output
    assert shown.startswith("Pista 2 de 3\n\nUna capa lineal se *llama*")


def test_the_course_file_chooses_the_language_unless_the_option_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("headcheck.toml").write_text('language = "es"\n')
    shown = CliRunner().invoke(cli, ["show", SLUG]).output
    assert "## Qué se comprueba" in shown
    shown = CliRunner().invoke(cli, ["show", SLUG, "--language", "en"]).output
    assert "## What is checked" in shown


def test_an_unknown_language_is_told_with_those_that_exist() -> None:
    result = CliRunner().invoke(cli, ["show", SLUG, "--language", "tlh"])
    assert str(result.exception) == "there is no language 'tlh'; there are en, de, es"
