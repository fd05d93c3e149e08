"""What a runtime in this process leaves behind is taken away."""

import sys
from types import SimpleNamespace

import pytest


@pytest.fixture(autouse=True)
def no_module_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "submission", SimpleNamespace())
