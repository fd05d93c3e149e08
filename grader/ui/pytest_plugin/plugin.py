"""Run properties as tests: `pytest --headcheck package.module:Class --exercise SLUG`.

Collects one test for every property, device and dtype. The contract is that of an exercise, or is
read from a file (`--contract FILE`). Without either, the plugin recognises what the class computes
and judges it by that. Each test tries the bank, a fixed set of cases, and then cases that
Hypothesis searches. The named code is trusted and runs in this process. If no code is named, the
plugin imports nothing and does nothing.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from headcheck.grader.grading import devices
from headcheck.properties.counting import count

if TYPE_CHECKING:
    from headcheck.grader.ui.pytest_plugin.suite import (
        PropertySuite,
        PropertyVariant,
        VariantOutcome,
    )
    from headcheck.grader.ui.pytest_plugin.target_settings import TargetSettings

NOTE_KEY = "headcheck note"
SETTINGS = {
    "contract": "--contract",
    "exercise": "--exercise",
    "sizes": "--headcheck-sizes",
    "course": "--course",
}
"""the settings of a target, and the options that set them"""
SOURCES = ("bank", "search", "both")
OPTIONS: dict[str, dict[str, Any]] = {
    "--headcheck": {
        "action": "append",
        "metavar": "NAME",
        "help": "the implementation to try: package.module:Class or path/to/file.py:Class; may be "
        "repeated. Other tests are collected only where they are named, too",
    },
    "--headcheck-targets": {
        "action": "store_true",
        "help": "try every implementation that [tool.headcheck.targets] of pyproject.toml names",
    },
    "--contract": {
        "metavar": "FILE|FOLDER",
        "help": "the contract that it keeps, or its folder. Without one, and without --exercise, "
        "it is judged as what it computes",
    },
    "--exercise": {
        "metavar": "SLUG|FOLDER",
        "help": "the exercise whose contract it keeps, or its folder",
    },
    "--course": {
        "metavar": "FILE",
        "help": "the course file, which says how much is told of what fails (default: "
        "headcheck.toml beside the implementation, or of the exercise)",
    },
    "--device": {
        "action": "append",
        "metavar": "DEVICE",
        "help": f"where to try it: {devices.DEVICE_NAMES} (default: cpu); may be repeated. Where "
        "there is no such device, its tests are skipped",
    },
    "--headcheck-cases": {
        "choices": SOURCES,
        "default": "both",
        "help": "what a property is tried on: the bank, which is the cases that the exercise is "
        "graded on; cases that Hypothesis searches under the profile that is loaded; or first the "
        "one and then the other (default)",
    },
    "--headcheck-sizes": {
        "metavar": "RULES",
        "help": "the sizes that the implementation has, if it has not all of them: "
        '"head_dim=even tokens<=64 heads=1,2,4 d_out%%8"',
    },
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the command line."""
    group = parser.getgroup("headcheck", "properties of attention")
    for name, settings in OPTIONS.items():
        group.addoption(name, **settings)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Give each worker its GPU, before a conftest.py can have initialised CUDA."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    names = early_config.known_args_namespace.device or []
    # A user who names cuda:1 assigns the GPUs.
    if worker and "cuda" in names and not any(name.startswith("cuda:") for name in names):
        devices.select_gpu(worker)


def pytest_configure(config: pytest.Config) -> None:
    """Locate the code under test, so that a wrong name ends the run before any test starts."""
    for name in get_devices(config):
        if not devices.is_known(name):
            raise pytest.UsageError(f"--device: `{name}` is none of {devices.DEVICE_NAMES}")
    targets = list_targets(config)
    if not targets:
        return
    with use_one_thread():
        suites = [load_suite(target) for target in targets]
    source = config.getoption("--headcheck-cases")
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args = []  # no other tests were named: skip `testpaths`
    config.pluginmanager.register(SuitePlugin(suites, source), "headcheck suite")


def list_targets(config: pytest.Config) -> "list[TargetSettings]":
    """Return the targets that the options and the project name. Raises pytest.UsageError."""
    names, whole = config.getoption("--headcheck") or [], config.getoption("--headcheck-targets")
    given = {key: config.getoption(option) for key, option in SETTINGS.items()}
    if not (names or whole):
        # Sizes may stand among the options of every run.
        for key in ("contract", "exercise", "course"):
            if given[key] is not None:
                problem = f"{SETTINGS[key]} needs --headcheck to say what is to be tried"
                raise pytest.UsageError(problem)
        return []
    from headcheck.grader.ui.pytest_plugin import target_settings as settings

    options = {key: settings.Setting(text, SETTINGS[key]) for key, text in given.items() if text}
    own = config.inipath is not None and config.inipath.name == "pyproject.toml"
    project = config.inipath.parent if own and config.inipath else config.rootpath
    try:
        known = settings.read_targets(project)
        if whole and not known:
            raise settings.BadTarget("--headcheck-targets: there is no [tool.headcheck.targets]")
        return settings.combine([*names, *known] if whole else names, options, known)
    except settings.BadTarget as problem:
        raise pytest.UsageError(str(problem)) from problem


def get_devices(config: pytest.Config) -> list[str]:
    """Return the requested devices without duplicates."""
    return list(dict.fromkeys(config.getoption("--device", default=None) or ["cpu"]))


def load_suite(settings: "TargetSettings") -> "PropertySuite":
    """Return the suite for a target. Raises pytest.UsageError."""
    from headcheck.grader.ui.pytest_plugin.suite import PropertySuite
    from headcheck.grader.ui.pytest_plugin.target import load_target
    from headcheck.grader.ui.pytest_plugin.target_settings import BadTarget

    try:
        target = load_target(settings)
    except BadTarget as problem:
        raise pytest.UsageError(str(problem)) from problem
    return PropertySuite(
        target.namespace,
        target.contract,
        target.cases,
        title=target.title,
        replay=target.replay,
        assumptions=target.assumptions,
        feedback=target.feedback,
        has_statement=target.has_statement,
    )


@contextmanager
def use_one_thread() -> Iterator[None]:
    """Let torch use one thread: on small inputs others only wait, and take processor time."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def apply_outcome(outcome: "VariantOutcome") -> None:
    """End the current test with an outcome, without a traceback of the plugin."""
    if outcome.skipped:
        # Of the property, not of this line, which pytest would name beside every reason.
        raise pytest.skip.Exception(outcome.skipped, _use_item_location=True)
    if outcome.failure:
        pytest.fail(outcome.failure, pytrace=False)


class SuitePlugin:
    """Adds the tests of suites to a run."""

    def __init__(self, suites: "Sequence[PropertySuite]", source: str) -> None:
        self.suites = suites
        self.source = source
        self._explained: list[PropertySuite] = []

    def pytest_report_header(self) -> list[str]:
        lines, search = [], ""
        if self.source != "bank":
            from hypothesis import settings

            search = f"{settings().max_examples} examples of a search"
        for suite in self.suites:
            bank = f"up to {len(suite.case_set)} cases of the bank"
            tried = {"bank": bank, "search": search, "both": f"{bank} and {search}"}[self.source]
            lines.append(f"headcheck: {suite.title}, on {tried}")
            if suite.hidden:
                hidden = f"{count(suite.hidden, 'check')} {'is' if suite.hidden == 1 else 'are'}"
                lines.append(f"headcheck: {hidden} not shown, and not run here")
        return lines

    @pytest.hookimpl(tryfirst=True)  # so that -k, -m and --lf apply to these, too
    def pytest_collection_modifyitems(
        self, session: pytest.Session, items: list[pytest.Item]
    ) -> None:
        for suite in self.suites:
            node = self._get_node(suite)
            collector = PropertyCollector.from_parent(session, name=node, nodeid=node)
            collector.suite, collector.source = suite, self.source
            collector.title = self._get_title(suite)
            report = session.ihook.pytest_make_collect_report(collector=collector)
            session.ihook.pytest_collectreport(report=report)  # so that pytest counts them
            items.extend(report.result)

    def _get_title(self, suite: "PropertySuite") -> str:
        """Return the title that distinguishes the tests of one suite from those of the others."""
        return suite.replay.name if len(self.suites) > 1 and suite.replay else ""

    def _get_node(self, suite: "PropertySuite") -> str:
        title = self._get_title(suite)
        return f"headcheck::{title}" if title else "headcheck"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        failed = [report.nodeid for report in terminalreporter.stats.get("failed", ())]
        self.show_mistakes(terminalreporter, failed)
        self._show_assumptions(terminalreporter)
        reports = [report for found in terminalreporter.stats.values() for report in found]
        kept = [pair for report in reports for pair in getattr(report, "user_properties", ())]
        notes = dict.fromkeys(str(text) for name, text in kept if name == NOTE_KEY)
        if notes:
            terminalreporter.section("headcheck notes")
            for text in notes:
                terminalreporter.line(text)

    def show_mistakes(self, reporter: pytest.TerminalReporter, failed: Sequence[str]) -> None:
        """Name the mistakes that explain failed tests, given by their node; each suite's once."""
        names = get_devices(reporter.config)
        device = next((each for each in names if not devices.explain_unavailable(each)), None)
        for suite in self.suites:
            node = f"{self._get_node(suite)}::"
            is_new = suite not in self._explained and any(each.startswith(node) for each in failed)
            if device is None or not is_new:
                continue
            self._explained.append(suite)
            with use_one_thread():
                found = suite.diagnose(device)
            if found is not None:
                reporter.section(suite.title)
                for line in (found.headline, *(f"  {each}" for each in found.sentences)):
                    reporter.line(line)

    def _show_assumptions(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the contract assumed for each class that has no named one, even in a quiet run."""
        for suite in self.suites:
            if suite.assumptions:
                terminalreporter.section(suite.title)
                for sentence in suite.assumptions:
                    terminalreporter.line(f"assumed: {sentence}")


class PropertyCollector(pytest.Collector):
    """Collects the tests of a suite."""

    suite: "PropertySuite"
    source: str
    title: str
    """the title of the suite, if there are several suites"""

    def collect(self) -> Iterator["PropertyItem"]:
        names = get_devices(self.config)
        missing = {device: devices.explain_unavailable(device) for device in names}
        for variant in self.suite.list_variants(names):
            item = PropertyItem.from_parent(
                self, name=variant.name, suite=self.suite, variant=variant, source=self.source
            )
            item.title = self.title
            if reason := missing[variant.device]:
                item.add_marker(pytest.mark.skip(reason=reason))
            yield item


class PropertyItem(pytest.Item):
    """One property on one device in one dtype."""

    obj: Callable[[], None]
    """the search; Hypothesis's own plugin looks in this attribute for its tests and statistics"""
    title: str

    def __init__(
        self, *, suite: "PropertySuite", variant: "PropertyVariant", source: str, **node: Any
    ) -> None:
        super().__init__(**node)
        self.suite = suite
        self.variant = variant
        self.source = source
        if source != "bank":
            from headcheck.grader.ui.pytest_plugin.search import make_search

            self.obj = make_search(suite, variant)

    def runtest(self) -> None:
        try:
            with use_one_thread():
                outcome = self._check()
            apply_outcome(outcome)
        finally:
            self.user_properties.extend((NOTE_KEY, note.message) for note in self.suite.notes)

    def _check(self) -> "VariantOutcome":
        if self.source != "search":
            outcome = self.suite.get_outcome(self.variant)
            if self.source == "bank" or outcome.failure or outcome.skipped:
                return outcome
        return self.suite.search(self.variant, self.obj)

    def reportinfo(self) -> tuple[str, int, str]:
        # No source location: reports name the property alone.
        return "headcheck", 0, f"{self.title} {self.name}".strip()
