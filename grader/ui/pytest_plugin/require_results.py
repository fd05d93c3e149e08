"""Let a run fail in which nothing was tried: `headcheck verify` loads this beside the plugin.

Tests that are skipped are no reason for pytest to fail, and an implementation all of whose tests
are skipped would pass.
"""

import pytest


def pytest_sessionfinish(session: pytest.Session) -> None:
    """End like a run without tests if none of them passed or failed."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if session.exitstatus == pytest.ExitCode.OK and not (reporter and reporter.stats.get("passed")):
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
