"""No attack wins: on every rung, as root and as an ordinary user."""

import pytest

from tests.hostile.arena import Setting
from tests.hostile.conftest import EVERY, SETTINGS, Arenas
from tests.hostile.corpus import ATTACKS, FOLDER, KNOWN_LIMITS, PAIRED, Attack, KnownLimit

REPETITIONS = 20


# What a submission says about itself is judged on the examiner's side, which knows no rungs:
# those that are only after points are tried on one of them, and on all in the deep run.
EACH = [(s, a) for s in SETTINGS for a in ATTACKS if s == SETTINGS[0] or not a.twin]


@pytest.mark.parametrize(
    ("setting", "attack"), EACH, ids=lambda each: getattr(each, "name", str(each))
)
def test_it_is_contained(arenas: Arenas, setting: Setting, attack: Attack) -> None:
    arena = arenas(setting)
    assert arena.attack(attack) == []


@pytest.mark.deep
@pytest.mark.parametrize("setting", EVERY, ids=str)
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_it_is_contained_every_time(arenas: Arenas, setting: Setting, attack: Attack) -> None:
    arena = arenas(setting)
    assert [arena.attack(attack) for _ in range(REPETITIONS)] == [[]] * REPETITIONS


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
@pytest.mark.parametrize("limit", KNOWN_LIMITS, ids=lambda limit: limit.attack.name)
def test_known_limits_are_limits_where_we_say(
    arenas: Arenas, setting: Setting, limit: KnownLimit
) -> None:
    """When an attack no longer wins on a rung, take the rung out of its entry."""
    won = arenas(setting).attack(limit.attack)
    assert bool(won) == (setting.rung in limit.rungs), limit.why


def test_every_file_is_in_the_manifest_and_says_what_it_tries() -> None:
    files = {path.stem for path in (FOLDER / "attacks").glob("*.py")}
    listed = [*ATTACKS, *(limit.attack for limit in KNOWN_LIMITS)]
    assert sorted(files) == sorted([PAIRED, *(attack.name for attack in listed)])
    assert all(attack.tries.endswith(".") for attack in listed)


def test_a_wrong_answer_gets_something_so_that_forging_could_be_seen(arenas: Arenas) -> None:
    arena = arenas(SETTINGS[0])
    [record] = arena.grade(FOLDER / "twins" / "wrong.py")["records"]
    assert 0 < record["score"] < record["max_score"]
    assert record["status"] == "failed"
