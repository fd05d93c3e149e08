"""The output of `headcheck verify`: the first failure at once, then one screen about the rest.

pytest prints a line for each test and then all messages, so whoever looks for a fault has to scroll
back. It also does not fail because of skipped tests, so an implementation would pass if all of its
tests were skipped; such a run ends here with the exit code of a run without tests.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import pytest

from headcheck.grader.ui.pytest_plugin.plugin import SuitePlugin

MAX_ROWS = 10
"""the most rows of one list: both lists and the counts fit a screen"""
EVERY_MESSAGE = "`pytest --headcheck NAME` prints every message"
SKIPPED = "Skipped: "


class VerifyReport:
    """Prints the first failure when it happens, and the summary at the end."""

    def __init__(self, reporter: pytest.TerminalReporter, suites: SuitePlugin | None) -> None:
        self.reporter = reporter
        self.suites = suites
        self.has_failed = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Count a test without printing a letter for it."""
        if report.when != "call" and report.passed:
            return None
        return report.outcome, "", ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.failed or self.has_failed:
            return
        self.has_failed = True
        self.reporter.ensure_newline()
        self.reporter.write_line(f"FAILED {get_name(report)}", red=True, bold=True)
        if self.suites is not None:
            self.suites.show_mistakes(self.reporter, [report.nodeid])
        for line in report.longreprtext.splitlines():
            self.reporter.write_line(line)

    @pytest.hookimpl(tryfirst=True)
    def pytest_terminal_summary(self) -> None:
        if self.reporter.config.get_verbosity() < -1:
            self.reporter.write_line(describe_counts(self.reporter.stats))
            return
        for title, rows in (
            ("failed", list_failed(self.reporter.stats.get("failed", ()))),
            ("skipped", list_skipped(self.reporter.stats.get("skipped", ()))),
        ):
            if rows:
                self.reporter.section(title)
            for row in shorten(rows):
                self.reporter.write_line(row)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """End with the exit code of a run without tests if no test passed or failed."""
        if session.exitstatus == pytest.ExitCode.OK and not self.reporter.stats.get("passed"):
            session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED


@pytest.hookimpl(trylast=True)  # after the plugins that register what is read here
def pytest_configure(config: pytest.Config) -> None:
    """Replace what pytest prints, once the suites are loaded."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    suites = config.pluginmanager.get_plugin("headcheck suite")
    if reporter is not None:
        config.pluginmanager.register(VerifyReport(reporter, suites), "headcheck verify report")


def get_name(report: pytest.TestReport) -> str:
    """Return the name of a property's variant, with its implementation if there are several."""
    return report.nodeid.removeprefix("headcheck::")


def list_failed(reports: Sequence[pytest.TestReport]) -> list[str]:
    """Return a row for each property that failed: its variants, and what its message says first."""
    variants: dict[str, list[str]] = {}
    said: dict[str, str] = {}
    for report in reports:
        name, _, variant = get_name(report).partition("[")
        variants.setdefault(name, []).append(variant.removesuffix("]"))
        said.setdefault(name, " ".join(list_cause(report.longreprtext)))
    return [f"{name} [{', '.join(found)}] {said[name]}" for name, found in variants.items()]


def list_cause(message: str) -> Iterator[str]:
    """Yield what a message says first, and the row that says what was got."""
    first, *rows = message.splitlines() or [""]
    yield first.removeprefix("Fails: ")
    got = next((row.split(maxsplit=1)[1] for row in rows if row.startswith("  got  ")), "")
    if got:
        yield f"Got {got}"


def list_skipped(reports: Sequence[pytest.TestReport]) -> list[str]:
    """Return a row for each reason for which properties were skipped, and how often."""
    reasons = Counter(
        # The reason may name the variant of a property, of which there is one for each dtype.
        report.longrepr[2].removeprefix(SKIPPED).partition("[")[0]
        for report in reports
        if isinstance(report.longrepr, tuple)
    )
    return [f"{number:>4}  {reason}" for reason, number in reasons.most_common()]


def shorten(rows: Sequence[str]) -> list[str]:
    """Return the first rows, and how many more there are."""
    more = len(rows) - MAX_ROWS
    rest = [f"and {more} more: {EVERY_MESSAGE}"] if more > 0 else []
    return [*rows[:MAX_ROWS], *rest]


def describe_counts(stats: Mapping[str, Sequence[object]]) -> str:
    """Return how many tests failed, passed and were skipped."""
    outcomes = ("failed", "passed", "skipped", "error")
    return ", ".join(f"{len(stats[each])} {each}" for each in outcomes if stats.get(each))
