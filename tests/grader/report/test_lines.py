"""Lines that are too long go on below, and nothing a submission wrote begins like a command."""

from headcheck.grader.report.render.lines import COLUMNS, StyledLine, count_rows, fold_lines


def fold(text: str, hang: int = 0) -> list[str]:
    return [line.text for line in fold_lines([StyledLine(text, hang=hang)])]


def test_what_goes_on_below_begins_where_the_text_of_the_row_does() -> None:
    first, *rest = fold("    got       " + "seven words " * 12, hang=14)
    assert rest and all(len(each) <= COLUMNS for each in (first, *rest))
    assert all(each[:14] == " " * 14 and each[14:].startswith(("seven", "words")) for each in rest)


def test_headlines_and_short_lines_stay_as_they_are() -> None:
    assert fold("x" * 200) == ["x" * 200] and fold("  short") == ["  short"]
    assert count_rows([StyledLine("x" * 161)]) == 3


def test_no_line_is_broken_before_what_a_log_would_obey() -> None:
    hostile = "    got       " + "a" * 62 + " ::stop-commands::x"
    assert fold(hostile) == [hostile]
