"""Tests of libraries: one for each cell of each of a module's SUITES, on the devices asked for."""

import pytest

from grader.ui.pytest_plugin.plugin import devices_of
from grader.ui.pytest_plugin.suite import Suite


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    devices = devices_of(metafunc.config)
    marks = {name: [pytest.mark.gpu] if name.startswith("cuda") else [] for name in devices}
    if "device" in metafunc.fixturenames:
        metafunc.parametrize("device", [pytest.param(d, marks=marks[d]) for d in devices])
    if "cell" in metafunc.fixturenames:
        suites: dict[str, Suite] = metafunc.module.SUITES
        tests = [
            pytest.param(suite, cell, id=f"{name}-{cell.name}", marks=marks[cell.device])
            for name, suite in suites.items()
            for cell in suite.cells(devices)
        ]
        metafunc.parametrize(("suite", "cell"), tests)
