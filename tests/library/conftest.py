"""Tests of libraries: one for each cell of each of a module's SUITES, on the devices asked for.

A `cell` is tried on the bank, a `searched` one on cases that Hypothesis draws. An ordinary run
tries a part of the cells, another one of each suite, and searches for few.
"""

import pytest

from headcheck.grader.ui.pytest_plugin.plugin import get_devices
from headcheck.grader.ui.pytest_plugin.suite import PropertySuite

PARTS = {"cell": 12, "searched": 150}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    devices = get_devices(metafunc.config)
    marks = {name: [pytest.mark.gpu] if name.startswith("cuda") else [] for name in devices}
    if "device" in metafunc.fixturenames:
        metafunc.parametrize("device", [pytest.param(d, marks=marks[d]) for d in devices])
    for fixture in PARTS.keys() & set(metafunc.fixturenames):
        whole = metafunc.config.getoption("whole") or list(devices) != ["cpu"]
        parts = 1 if whole else PARTS[fixture]
        suites: dict[str, PropertySuite] = metafunc.module.SUITES
        tests = [
            pytest.param(suite, cell, id=f"{name}-{cell.name}", marks=marks[cell.device])
            for number, (name, suite) in enumerate(suites.items())
            for cell in suite.list_variants(devices)[number % parts :: parts]
        ]
        metafunc.parametrize(("suite", fixture), tests)
