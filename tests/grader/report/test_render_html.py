"""Pages: documents without a network, whole, and with landmarks."""

import base64
import hashlib
import re
from dataclasses import replace
from datetime import date
from html import unescape

import pytest

from headcheck.grader.report.render import html
from headcheck.grader.report.render.heading import NO_OCCASION, Occasion, make_heading
from headcheck.properties.violations.violation import Status
from tests.grader.report.records import (
    CASE,
    CODE_TO_PASTE,
    EQUATION,
    FUTURE,
    RIGHT,
    SHAPE,
    WRONG,
    Outline,
    make_crashed,
    make_report,
    make_submission,
    make_unjudged,
    render_pages,
)


def test_pages_are_documents_with_landmarks_and_need_no_network() -> None:
    for i, written in enumerate(render_pages(make_report(RIGHT, WRONG, make_unjudged()))):
        outline = Outline(written)
        assert written.startswith("<!doctype html>\n")
        assert outline.find_all("html") == [{"lang": "en"}]
        assert {"title", "main", "footer"} < set(outline.get_tag_names())
        assert outline.get_tag_names().count("h1") == 1
        assert not {"link", "img", "iframe"} & set(outline.get_tag_names())
        assert outline.get_tag_names().count("script") == (i == 0), "the index alone has one"
        assert "http://" not in written and "https://" not in written and "url(" not in written
        assert "prefers-color-scheme: dark" in written and "@media print" in written


def test_headings_never_skip_a_level() -> None:
    for written in render_pages(make_report(WRONG, make_unjudged())):
        names = Outline(written).get_tag_names()
        levels = [int(name[1]) for name in names if re.fullmatch(r"h\d", name)]
        assert all(b <= a + 1 for a, b in zip([0, *levels], levels, strict=False))


def test_page_shows_everything_once() -> None:
    words = Outline(html.render_page(WRONG, make_report(WRONG))).words
    for said in (
        *("alan.py", "class/", "causal_attention (CausalAttention)", "4 / 12", "✗ failed"),
        *("Paste this to see it", "Weights sum to one.", "It is repeatable.", "0 of 2 checks"),
        *("(cell 3, line 26)", "– not tried", f"{CASE}\n", CODE_TO_PASTE),
    ):
        assert said in words
    assert words.count(FUTURE) == 1
    assert words.count(EQUATION) == 2  # itself, and why others were not tried


def test_failed_groups_are_open_and_others_closed() -> None:
    details = Outline(html.render_page(WRONG, make_report(WRONG))).find_all("details")
    groups = [each for each in details if each.get("class") == "group"]
    assert ["open" in each for each in groups] == [False, True, True, False]


def test_fragment_has_the_content_of_a_page() -> None:
    for record in (RIGHT, WRONG, make_unjudged()):
        shown = Outline(html.render_fragment(record))
        said = Outline(html.render_page(record, make_report(record))).words
        assert shown.get_tag_names()[0] == "div"
        document = {"script", "link", "img", "iframe", "html", "body", "h1"}
        assert not document & set(shown.get_tag_names())
        body = [line for line in shown.words.splitlines() if line.strip()]
        assert not [line for line in body[2:] if line not in said]
        assert "http://" not in shown.words and "url(" not in html.render_fragment(record)
        headings = [attributes for level in "456" for attributes in shown.find_all(f"h{level}")]
        assert headings
        assert all("jp-toc-ignore" in (each["class"] or "").split() for each in headings)


def test_the_rules_of_a_fragment_are_about_nothing_else() -> None:
    css = html.render_fragment(RIGHT).split("<style>")[1].split("</style>")[0]
    css = re.sub(r"/\*.*?\*/", "", css, flags=re.S)
    depth, selectors, last = 0, [], 0
    for at, character in enumerate(css):
        if character == "{":
            if depth == 0:
                selectors.append(" ".join(css[last:at].split()))
            depth += 1
        elif character == "}":
            depth, last = depth - 1, at + 1
    assert depth == 0
    for selector in selectors:
        assert all(".headcheck.headcheck" in part for part in selector.split(",")), selector


def test_group_lists_properties_with_an_outcome_shown_elsewhere() -> None:
    record = make_submission(make_crashed(SHAPE, "contract"), make_crashed(FUTURE, "mask"))
    words = Outline(html.render_page(record, make_report(record))).words
    assert "1 more check ended the same way." in words
    assert f"Ended the same way as “{SHAPE}”" in words
    assert words.count("ValueError") == 1


def test_an_error_has_a_box() -> None:
    words = Outline(html.render_page(make_unjudged(), make_report(make_unjudged()))).words
    assert "Error: syntax" in words and "was never closed (cell 4, line 3)" in words


def test_the_index_links_every_page() -> None:
    submissions = (RIGHT, RIGHT, WRONG)
    written = html.render_index(make_report(*submissions))
    table = written[written.index("<table") : written.index("</table>") + len("</table>")]
    outline = Outline(table)
    links = [a["href"] for a in outline.find_all("a")]
    assert sorted(map(str, links)) == [html.make_page_name(s, i) for i, s in enumerate(submissions)]
    assert len(set(links)) == 3
    assert [th["scope"] for th in outline.find_all("th")] == ["col"] * 4 + ["row"] * 3
    assert "3 results: 2 passed, 1 failed" in outline.words


def test_the_index_of_one_submission_says_nothing_of_a_class() -> None:
    words = Outline(html.render_index(make_report(WRONG))).words
    assert "1 result: 1 failed" in words and "Scores" not in words and "Matrix" not in words


def test_script_of_the_index_is_allowed_by_its_digest_alone() -> None:
    written = html.render_index(make_report(RIGHT, WRONG))
    policy = unescape(written.split('Content-Security-Policy" content="')[1].split('"')[0])
    script = written.split("<script>")[1].split("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    for page in html.render_pages(make_report(RIGHT, WRONG)).values():
        assert "script-src" not in page


def test_rows_are_in_the_order_of_names_and_pages_link_their_neighbours() -> None:
    files = ("class/Zoë.py", "class/Émile.py", "class/ada.py", "class/Łukasz.py")
    report = make_report(*(replace(RIGHT, file=file) for file in files))
    pages = html.render_pages(report)
    names = [html.make_page_name(record, i) for i, record in enumerate(report.submissions)]
    zoe, emile, ada, lukasz = names
    assert list(pages) == names and lukasz.startswith("004-lukasz-")
    index = html.render_index(report)
    places = [index.index(f'href="{name}"') for name in (ada, emile, lukasz, zoe)]
    assert places == sorted(index.index(f'href="{name}"') for name in names)
    links = {name: [a["href"] for a in Outline(page).find_all("a")] for name, page in pages.items()}
    assert links == {
        ada: ["index.html", emile],
        emile: ["index.html", ada, lukasz],
        lukasz: ["index.html", emile, zoe],
        zoe: ["index.html", lukasz],
    }
    assert "← Émile.py" in Outline(pages[lukasz]).words


@pytest.mark.parametrize(
    ("files", "labels"),
    [
        (["c/a/x.py", "c/b/y.py"], ["a/x.py", "b/y.py"]),
        (["c/ada/x.py", "c/bob/x.py"], ["ada", "bob"]),
        (["c/ada.py"], ["ada.py"]),
        (["/c/ada.py", "c/bob.py"], ["/c/ada.py", "c/bob.py"]),
        (["ada.py", "c/ada.py"], ["ada.py", "c/ada.py"]),
        (["/ada.py", "/bob.py"], ["/ada.py", "/bob.py"]),
        (["c/x.py", "c/x.py"], ["x.py CausalAttention", "x.py CausalAttention"]),
        (["", "/"], ["", "/"]),
    ],
)
def test_submissions_are_called_what_distinguishes_them(
    files: list[str], labels: list[str]
) -> None:
    assert html.label_submissions([replace(RIGHT, file=file) for file in files]) == labels


def test_no_list_has_a_heading_alone() -> None:
    words = re.sub(r"\s+", " ", Outline(html.render_page(RIGHT, make_report(RIGHT))).words)
    assert "Does not hold for the reason above" not in words


def test_one_page_with_everything_links_within() -> None:
    outline = Outline(html.render_all(make_report(RIGHT, WRONG)))
    targets = [f"#{article['id']}" for article in outline.find_all("article")]
    assert [a["href"] for a in outline.find_all("a")] == targets and len(targets) == 2


@pytest.mark.parametrize("status", [*Status, "something_new"])
def test_a_status_is_a_word_and_a_symbol(status: str) -> None:
    shown = html.render_page(replace(RIGHT, status=status), make_report(RIGHT))
    symbol = html.SYMBOLS.get(status.replace("_", " "), "?")
    assert f"{symbol} {status.replace('_', ' ')}" in Outline(shown).words


def test_headings_name_course_exercise_and_day() -> None:
    occasion = Occasion("Deep learning <1>", date(2026, 3, 9))
    report = make_report(RIGHT, WRONG)
    index, whole = html.render_index(report, occasion), html.render_all(report, occasion)
    for page in (index, whole):
        words = Outline(page).words
        assert "Deep learning <1>: Causal attention\n9 March 2026" in words
        assert "Report" not in words
    assert "<title>Deep learning &lt;1&gt;, Causal attention, 9 March 2026 – headcheck" in index
    pages = html.render_pages(report, occasion=occasion)
    assert all("Causal attention, 9 March 2026" in Outline(each).words for each in pages.values())


@pytest.mark.parametrize(
    ("slugs", "named"),
    [
        ([], "No exercise"),
        ([None], "No exercise"),
        (["rope", None, "rope"], "Rotary positions"),
        (["my_own\n"], "my_own\\n"),
        (["linear_layer", "rope"], "A linear layer, Rotary positions"),
        (["a", "b", "c", "d"], "4 exercises"),
    ],
)
def test_a_heading_names_a_few_exercises(slugs: list[str | None], named: str) -> None:
    assert make_heading(slugs, NO_OCCASION).title == named


def test_score_and_neighbours_are_in_the_bar_of_a_page_and_the_score_nowhere_else() -> None:
    page = html.render_page(WRONG, make_report(WRONG))
    bar = page.split('<header class="bar">')[1].split("</header>")[0]
    assert "4 / 12" in bar and 'href="index.html"' in bar
    assert Outline(page).words.count("4 / 12") == 1
