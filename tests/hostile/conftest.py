"""Arenas, one for every setting that is asked for, kept until the tests of a module are over."""

import os
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.hostile.arena import Arena, ArenaSetting
from tests.hostile.users import NOBODY, find_interpreter


def get_skip_reason(setting: ArenaSetting) -> str:
    """Why an arena of this setting cannot be had here; empty if it can."""
    if sys.platform != "linux":
        return "the jail is made of Linux's parts"
    if setting.user is not None and os.geteuid() != 0:
        return "only root can become another user"
    if not find_interpreter(setting.user):
        return f"no Python 3.{sys.version_info.minor} that user {setting.user} may run"
    return ""


# As an ordinary user where that can be; else as who we are.
DEFAULT_USER = None if os.geteuid() or not find_interpreter(NOBODY) else NOBODY
SETTINGS = [ArenaSetting("A", user=DEFAULT_USER), ArenaSetting("B", user=DEFAULT_USER)]
ALL_SETTINGS = [
    ArenaSetting(level, user=user) for level in ("A", "B", "B-") for user in (None, NOBODY)
]
Arenas = Callable[[ArenaSetting], Arena]


@pytest.fixture(scope="session")
def arenas() -> Iterator[Arenas]:
    """Gives the arena of a setting; skips where there can be none."""
    made: dict[ArenaSetting, Arena] = {}

    def arena(setting: ArenaSetting) -> Arena:
        if reason := get_skip_reason(setting):
            pytest.skip(reason)
        if setting not in made:
            made[setting] = Arena(setting)
        if made[setting].spoiled:  # by an attack that won
            made[setting].revive()
        found = made[setting].state
        if not setting.without and found["rung"] != setting.level:
            pytest.skip(f"this machine is of rung {found['rung']}: {'; '.join(found['missing'])}")
        return made[setting]

    yield arena
    for each in made.values():
        each.close()
