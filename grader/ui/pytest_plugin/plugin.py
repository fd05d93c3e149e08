"""Run properties as tests: `pytest --headcheck package.module:Class --exercise SLUG`.

Collects one test for every property of the exercise, device and dtype. It tries the exercise's own
cases, the bank, and then cases that Hypothesis searches. The named code is trusted and runs in this
process. Without `--headcheck` the plugin imports and does nothing.
"""

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from grader.grading import devices

if TYPE_CHECKING:
    from grader.ui.pytest_plugin.suite import PropertySuite, PropertyVariant, VariantOutcome

NOTE_KEY = "headcheck note"
SOURCES = ("bank", "search", "both")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the command line."""
    group = parser.getgroup("headcheck", "properties of attention")
    group.addoption(
        "--headcheck",
        metavar="NAME",
        help="the implementation to try: package.module:Class or path/to/file.py:Class. Other "
        "tests are collected only where they are named, too",
    )
    group.addoption(
        "--exercise",
        metavar="SLUG|FOLDER",
        help="the exercise whose contract it keeps, or its folder",
    )
    group.addoption(
        "--device",
        action="append",
        metavar="DEVICE",
        help=f"where to try it: {devices.DEVICE_NAMES} (default: cpu); may be repeated. Where "
        "there is no such device, its tests are skipped",
    )
    group.addoption(
        "--headcheck-cases",
        choices=SOURCES,
        default="both",
        help="what a property is tried on: the bank, which is the cases that the exercise is "
        "graded on; cases that Hypothesis searches under the profile that is loaded; or first the "
        "one and then the other (default)",
    )
    group.addoption(
        "--headcheck-sizes",
        default="",
        metavar="RULES",
        help="the sizes that the implementation has, if it has not all of them: "
        '"head_dim=even tokens<=64 heads=1,2,4 d_out%%8"',
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Give each worker its GPU, before a conftest.py can have initialised CUDA."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    names = early_config.known_args_namespace.device or []
    # A user who names cuda:1 assigns the GPUs.
    if worker and "cuda" in names and not any(name.startswith("cuda:") for name in names):
        devices.select_gpu(worker)


def pytest_configure(config: pytest.Config) -> None:
    """Locate the code under test, so that a wrong name ends the run before it begins."""
    for name in get_devices(config):
        if not devices.is_known(name):
            raise pytest.UsageError(f"--device: `{name}` is none of {devices.DEVICE_NAMES}")
    name, slug = config.getoption("--headcheck"), config.getoption("--exercise")
    if name is None:
        if slug is not None:
            raise pytest.UsageError("--exercise needs --headcheck to say what is to be tried")
        return
    if slug is None:
        raise pytest.UsageError("--headcheck needs --exercise to say what is asked of it")
    suite = load_suite(name, slug, config.getoption("--headcheck-sizes"))
    source = config.getoption("--headcheck-cases")
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args = []  # no other tests were named: skip `testpaths`
    config.pluginmanager.register(SuitePlugin(suite, source), "headcheck suite")


def get_devices(config: pytest.Config) -> list[str]:
    """Return the requested devices without repetitions."""
    return list(dict.fromkeys(config.getoption("--device", default=None) or ["cpu"]))


def load_suite(name: str, slug: str, sizes: str) -> "PropertySuite":
    """Return the suite for the definition `name`. Raises pytest.UsageError."""
    from exercises.exercise import BadContract
    from grader.grading.infer import TargetNotFound, find_exercise
    from grader.ui.pytest_plugin.locate import DefinitionNotFound
    from grader.ui.pytest_plugin.messages import ReplayCommand
    from grader.ui.pytest_plugin.replay import load_namespace
    from grader.ui.pytest_plugin.suite import PropertySuite
    from properties.size_rules import BadSizes, parse_sizes

    try:
        exercise = find_exercise(slug)
        return PropertySuite(
            load_namespace(name, exercise.contract),
            exercise.contract,
            exercise.cases,
            sizes=parse_sizes(sizes) if sizes else None,
            title=f"{name} as {slug}",
            replay=ReplayCommand(name, slug, sizes),
        )
    except (BadContract, TargetNotFound) as problem:
        raise pytest.UsageError(f"--exercise: {problem}") from problem
    except BadSizes as problem:
        raise pytest.UsageError(f"--headcheck-sizes: {problem}") from problem
    except DefinitionNotFound as problem:
        raise pytest.UsageError(f"--headcheck: {problem}") from problem


def apply_outcome(outcome: "VariantOutcome") -> None:
    """End the current test with an outcome, without a traceback of the plugin."""
    if outcome.skipped:
        pytest.skip(outcome.skipped)
    if outcome.failure:
        pytest.fail(outcome.failure, pytrace=False)


class SuitePlugin:
    """Adds the tests of a suite to a run."""

    def __init__(self, suite: "PropertySuite", source: str) -> None:
        self.suite = suite
        self.source = source

    def pytest_report_header(self) -> str:
        from hypothesis import settings

        bank = f"up to {len(self.suite.case_set)} cases of the bank"
        search = f"{settings().max_examples} examples of a search"
        tried = {"bank": bank, "search": search, "both": f"{bank} and {search}"}[self.source]
        return f"headcheck: {self.suite.title}, on {tried}"

    @pytest.hookimpl(tryfirst=True)  # so that -k, -m and --lf apply to these, too
    def pytest_collection_modifyitems(
        self, session: pytest.Session, items: list[pytest.Item]
    ) -> None:
        collector = PropertyCollector.from_parent(session, name="headcheck", nodeid="headcheck")
        collector.suite, collector.source = self.suite, self.source
        report = session.ihook.pytest_make_collect_report(collector=collector)
        session.ihook.pytest_collectreport(report=report)  # so that pytest counts them
        items.extend(report.result)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        reports = [report for found in terminalreporter.stats.values() for report in found]
        kept = [pair for report in reports for pair in getattr(report, "user_properties", ())]
        notes = dict.fromkeys(str(text) for name, text in kept if name == NOTE_KEY)
        if notes:
            terminalreporter.section("headcheck notes")
            for text in notes:
                terminalreporter.line(text)


class PropertyCollector(pytest.Collector):
    """Collects the tests of a suite."""

    suite: "PropertySuite"
    source: str

    def collect(self) -> Iterator["PropertyItem"]:
        names = get_devices(self.config)
        missing = {device: devices.explain_unavailable(device) for device in names}
        for variant in self.suite.list_variants(names):
            item = PropertyItem.from_parent(
                self, name=variant.name, suite=self.suite, variant=variant, source=self.source
            )
            if reason := missing[variant.device]:
                item.add_marker(pytest.mark.skip(reason=reason))
            yield item


class PropertyItem(pytest.Item):
    """One property on one device in one dtype."""

    obj: Callable[[], None]
    """the search: Hypothesis's own plugin looks for its tests, and for its statistics, here"""

    def __init__(
        self, *, suite: "PropertySuite", variant: "PropertyVariant", source: str, **node: Any
    ) -> None:
        super().__init__(**node)
        self.suite = suite
        self.variant = variant
        self.source = source
        if source != "bank":
            from grader.ui.pytest_plugin.search import make_search

            self.obj = make_search(suite, variant)

    def runtest(self) -> None:
        try:
            apply_outcome(self._check())
        finally:
            self.user_properties.extend((NOTE_KEY, note.message) for note in self.suite.notes)

    def _check(self) -> "VariantOutcome":
        if self.source == "bank":
            return self.suite.get_outcome(self.variant)
        from grader.ui.pytest_plugin.search import finish_search
        from grader.ui.pytest_plugin.suite import VariantOutcome

        if self.source == "both":
            known: VariantOutcome | None = self.suite.get_outcome(self.variant)
        else:
            known = self.suite.explain_skipping(self.variant)
        if known is None or known == VariantOutcome():
            known = self.suite.explain_unsupported(self.variant)
        if known is not None:
            return known
        return finish_search(self.suite, self.obj)

    def reportinfo(self) -> tuple[str, int, str]:
        # No source location: reports name the property alone.
        return "headcheck", 0, self.name
