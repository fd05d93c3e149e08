"""The page on a course: what it counts, what it hides, and that its script runs in a browser."""

import html
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from headcheck.grader.course import dashboard
from headcheck.grader.course.export import Gradebook
from headcheck.grader.course.marks import MarkedCriterion
from headcheck.grader.course.results import ExerciseResult
from headcheck.grader.course.store.records import Mark, Override
from headcheck.grader.report.records import ErrorRecord, SubmissionRecord
from headcheck.grader.report.rubric import Criterion
from tests.grader.course.gradebooks import MakeRecord, make_standing

EVIL = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>"


def standing(student: str, record: SubmissionRecord, **more: Any) -> ExerciseResult:
    """A result in which everything names its student."""
    own = replace(record, student=student, file=f"file-{student}.py")
    about = {"name": f"Name of {student}", "email": f"{student}@x.org"}
    return make_standing(student, own, f"handle-{student}", **{**about, **more})


@pytest.fixture
def odd_gradebook(record: MakeRecord) -> Gradebook:
    unnamed = replace(record("x", 50), diagnosis=())
    crashed = tuple(replace(p, status="timed_out", points=0.0) for p in record("x").properties)
    ended = replace(unnamed, properties=crashed, status="timed_out", score=0.0)
    error = ErrorRecord("syntax", "never closed")
    unread = replace(unnamed, properties=(), status="not_tried", error=error, score=0.0)
    decided = Override("week 1", "dan", "causal_weights", 80.0, "", "prof")
    return Gradebook(
        "week 1",
        (
            standing("ada", record("ada")),
            standing("bob", record("bob", 50), late=True),
            standing("cyd", record("cyd", 50)),
            standing("dan", unnamed, override=decided, score=80.0, comments=("secret",)),
            standing("eve", ended),
            standing("fay", unread),
        ),
    )


def test_properties_are_sorted_by_number_of_violations(odd_gradebook: Gradebook) -> None:
    """Somebody who ran out of time has not answered, so no check has failed."""
    [hard] = dashboard.rank_properties(odd_gradebook.results)
    assert (hard.claim, hard.broken, hard.tried) == ("It is right.", 3, 4)


def test_page_is_complete_and_a_missing_page_is_no_error(odd_gradebook: Gradebook) -> None:
    pages = dashboard.render_pages(odd_gradebook, "1.0")
    text = dashboard.render(odd_gradebook, "1.0", tuple(pages))
    assert len(pages) == 6 and all(f'href="{name}"' in text for name in pages)
    assert "6 students; 6 results: 1 passed, 3 failed, 1 not tried, 1 timed out" in text
    assert "on average 46.7 % of the points" in text and "80 / 100*" in text
    assert "* decided by a person" in text
    dated = dashboard.render(odd_gradebook, "1.0", day=date(2026, 3, 9))
    assert re.search(r"<title>week 1, .*, 9 March 2026 – headcheck</title>", dated)
    assert "Nobody made one." in dashboard.render(Gradebook("empty", ()), "1.0")


def test_nothing_on_the_page_is_code_of_a_submission(
    odd_gradebook: Gradebook, record: MakeRecord
) -> None:
    bad = record("x", 50)
    claims = tuple(replace(p, claim=EVIL, message=EVIL, group=EVIL) for p in bad.properties)
    found = tuple(replace(d, sentence=EVIL, name=EVIL) for d in bad.diagnosis)
    evil = replace(bad, properties=claims, diagnosis=found)
    more = standing(EVIL, evil, name=EVIL, exercise=EVIL, status=EVIL)
    text = dashboard.render(replace(odd_gradebook, run=EVIL, results=(more,)), EVIL, (EVIL,))
    assert text.count("<script") == text.count("</script>") == 1
    assert "<img" not in text
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    allowed = html.unescape(policy[1])
    assert "default-src 'none'" in allowed and "script-src 'sha256-" in allowed
    assert "unsafe-inline" not in allowed.partition("script-src")[2]
    assert "http" not in text.replace("http-equiv", "")


def test_an_anonymous_page_names_nobody(odd_gradebook: Gradebook) -> None:
    hidden = dashboard.anonymise(odd_gradebook, "salt")
    text = dashboard.render(hidden, "1.0")
    for student in odd_gradebook.students:
        for said in ("Name of {}", "{}@x.org", "handle-{}", "file-{}"):
            assert said.format(student) not in text
    assert "secret" not in text and "student 0006" in text and "href" not in text
    assert hidden.total == odd_gradebook.total
    same, other = (dashboard.anonymise(odd_gradebook, salt) for salt in ("salt", "other"))
    assert same == hidden != other


# ------------------------------------------------------------------------ in a browser


@pytest.fixture(scope="session")
def browse() -> Callable[[Path, str], str]:
    """The page as a browser has it after its script ran."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")

    def dumped(page: Path, state: str = "") -> str:
        root = ["--no-sandbox"] if os.geteuid() == 0 else []
        options = ["--headless", "--disable-gpu", *root, "--dump-dom"]
        command = [chromium, *options, f"{page.as_uri()}{state}"]
        given: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 120}
        return str(subprocess.run(command, check=True, **given).stdout)

    return dumped


@pytest.fixture
def show(browse: Callable[[Path, str], str], tmp_path: Path) -> Callable[..., str]:
    """The page on a gradebook, in a browser."""

    def shown(book: Gradebook, state: str = "") -> str:
        page = tmp_path / "index.html"
        page.write_text(dashboard.render(book, "1.0"), encoding="utf-8")
        return browse(page, state)

    return shown


def rows(text: str) -> list[tuple[str, bool]]:
    """The students of the table in its order, and whether each is to be seen."""
    found = re.findall(r"<tr data-status=[^>]*?( hidden=\"\")?><th[^>]*>.*?<bdi>(.*?)</bdi>", text)
    return [(student, not hidden) for hidden, student in found]


def test_the_script_sorts_and_filters_the_table_and_the_matrix(
    odd_gradebook: Gradebook, show: Callable[..., str]
) -> None:
    plain = show(odd_gradebook)
    assert "data-ready=" in plain and "6 of 6" in plain
    assert [student for student, _ in rows(plain)] == ["ada", "bob", "cyd", "dan", "eve", "fay"]

    best_first = show(odd_gradebook, "#sort=-4")
    assert [student for student, _ in rows(best_first)][:2] == ["ada", "dan"]
    assert 'aria-sort="descending"' in best_first
    matrix = best_first[best_first.index('id="matrix"') :]
    assert matrix.index("Name of dan") < matrix.index("Name of bob")

    chosen = show(odd_gradebook, "#filter=NAME%20of%20b&status=failed")
    assert [student for student, seen in rows(chosen) if seen] == ["bob"]
    assert "1 of 6" in chosen
    matrix = chosen[chosen.index('id="matrix"') :]
    assert re.findall(r"<tr>.*?<bdi>(.*?)</bdi>", matrix)[-1:] == ["Name of bob"]


def test_the_filter_knows_no_accents(odd_gradebook: Gradebook, show: Callable[..., str]) -> None:
    names = ("Łukasz", "Émile", "Groß", "Zoë", "Ødegård", "Şule")
    results = tuple(
        replace(each, name=name) for each, name in zip(odd_gradebook.results, names, strict=True)
    )
    book = replace(odd_gradebook, results=results)
    wanted = {"emile": "bob", "LUKASZ": "ada", "gross": "cyd", "%C3%B8de": "eve"}
    for typed, found in wanted.items():
        text = show(book, f"#filter={typed}")
        assert [student for student, seen in rows(text) if seen] == [found]
    in_order = [student for student, _ in rows(show(book, "#sort=2"))]
    assert in_order == ["bob", "cyd", "ada", "eve", "fay", "dan"]


def test_thousands_of_students_are_a_page(record: MakeRecord, show: Callable[..., str]) -> None:
    many = tuple(standing(f"s{i:04}", record("x", (0, 50, 100)[i % 3])) for i in range(2000))
    text = show(Gradebook("large", many), "#sort=-4&status=passed")
    assert "666 of 2000" in text and "data-ready=" in text
    assert rows(text)[0][0] == "s0002"


# ------------------------------------------------------------------------ marks by hand


def mark_by_hand(book: Gradebook) -> Gradebook:
    """The same, where ada has a mark with a hostile comment, and bob is excused."""
    style = Criterion("style", 4.0, "Names <b>say</b> what things are.")
    when = "2026-02-03T10:30"
    mark = Mark("ada", "causal_weights", "style", 3.0, EVIL, "week 1", "prof. x", when)
    ada, bob, cyd, *others = book.results
    marked = (
        replace(ada, criteria=(MarkedCriterion(style, 1.0, mark),), marked=3.0, score=103.0),
        replace(bob, criteria=(MarkedCriterion(style, 0.0),), marked=2.0),
        replace(cyd, criteria=(MarkedCriterion(style),)),
    )
    return replace(book, results=(*(replace(m, max_score=104.0) for m in marked), *others))


def test_marks_have_a_column_and_a_section_on_each_page(odd_gradebook: Gradebook) -> None:
    book = mark_by_hand(odd_gradebook)
    pages = list(dashboard.render_pages(book, "1.0").values())
    index = dashboard.render(book, "1.0")
    cells = re.findall(r'<td data-label="style" data-value="(.*?)">(.*?)</td>', index)
    told = [("3.0", "3 of 4 points"), ("-1", "excused"), ("-1", "not yet marked")]
    assert cells == [*told, *[("-2", "")] * 3]
    assert index.count('<th scope="col">style</th>') == 1
    ada, bob, _, dan, *_ = pages
    assert "<title>file-ada.py: 103 / 104" in ada and '<p class="verdict">103 / 104' in ada
    assert "The checks give 100 points, and the marks add 3." in ada
    assert "Names &lt;b&gt;say&lt;/b&gt; what things are." in ada
    assert html.escape(EVIL, quote=False)[:30] in ada and "<script>document" not in ada
    assert "excused" in bob and "Marked by hand" not in dan
    for text in (index, *pages):
        assert "prof. x" not in text and "2026-02-03" not in text, "students may see these pages"
    assert 'data-label="style"' not in dashboard.render(odd_gradebook, "1.0")


def test_an_anonymous_page_has_marks_without_comments(odd_gradebook: Gradebook) -> None:
    hidden = dashboard.anonymise(mark_by_hand(odd_gradebook), "salt")
    marks = [c.mark for each in hidden.results for c in each.criteria if c.mark]
    assert [(m.points, m.student, m.comment, m.author) for m in marks] == [(3.0, "", "", "")]


# ------------------------------------------------------------------------ causes and columns


def test_only_first_causes_are_counted(record: MakeRecord) -> None:
    """Consequences of a mistake count once; so does what fails after a failure without a name."""
    bad = record("x", 0)
    [first, second] = (replace(p, status="failed", points=0.0) for p in bad.properties)
    names = [f"it_{i}" for i in range(19)]
    many = tuple(replace(second, name=name, claim=name) for name in names)
    follows = tuple(replace(p, follows=True) for p in (first, *many))
    own = replace(second, name="own", claim="own")
    later = replace(own, name="later", claim="later")
    named = replace(bad, properties=(*follows, own, later))
    unnamed = replace(bad, properties=(*many, first), diagnosis=())
    book = (standing("ada", named), standing("bob", unnamed))
    found = {each.claim: each.broken for each in dashboard.rank_properties(book)}
    assert found == {first.claim: 1, "own": 1, "it_0": 1}


def test_columns_without_anything_are_left_out(
    odd_gradebook: Gradebook, record: MakeRecord
) -> None:
    def titles(book: Gradebook) -> list[str]:
        text = dashboard.render(book, "1.0")
        head = text[text.index('<table id="table"') :].partition("</thead>")[0]
        return re.findall(r"<th[^>]*>(.*?)</th>", head)

    assert titles(odd_gradebook) == [
        *("Student", "Name", "Exercise", "Score", "Status", "Mistake", "Attempt", "Late"),
        "Seconds",
    ]
    plain = replace(record("x"), seconds=0.0)
    bare = replace(odd_gradebook, results=(standing("ada", plain, name="ada"),))
    assert titles(bare) == ["Student", "Exercise", "Score", "Status", "Attempt"]
    grouped = replace(odd_gradebook, results=(standing("ada", plain, name="ada", group="blue"),))
    assert titles(grouped)[-1] == "Group"
    text = dashboard.render(bare, "1.0")
    assert "decided by a person" not in text
    row = text[text.index("<tr data-status") :].partition("</tr>")[0]
    assert row.count("<td") == 4


def test_a_page_says_how_a_score_comes_about(odd_gradebook: Gradebook, record: MakeRecord) -> None:
    late = standing("bob", record("bob"), score=90.0, taken_off=10.0, penalty="10 % late")
    book = replace(odd_gradebook, results=(late,))
    [page] = dashboard.render_pages(book, "1.0").values()
    assert "Late work: 100 − 10 % late: 90 points." in page and "90 / 100" in page
