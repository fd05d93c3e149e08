"""A search here has as long as it needs."""

import pytest

from properties.binding import search


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a search as long as it needs: a busy machine is no reason to find less."""
    monkeypatch.setattr(search, "SECONDS", 60.0)
