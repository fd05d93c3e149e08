"""Tests of libraries: one for each cell of each of a module's SUITES, on the devices asked for."""

import pytest

from grader.ui.pytest_plugin.plugin import get_devices
from grader.ui.pytest_plugin.suite import PropertySuite


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    devices = get_devices(metafunc.config)
    marks = {name: [pytest.mark.gpu] if name.startswith("cuda") else [] for name in devices}
    if "device" in metafunc.fixturenames:
        metafunc.parametrize("device", [pytest.param(d, marks=marks[d]) for d in devices])
    if "cell" in metafunc.fixturenames:
        suites: dict[str, PropertySuite] = metafunc.module.SUITES
        tests = [
            pytest.param(suite, cell, id=f"{name}-{cell.name}", marks=marks[cell.device])
            for name, suite in suites.items()
            for cell in suite.list_variants(devices)
        ]
        metafunc.parametrize(("suite", "cell"), tests)
