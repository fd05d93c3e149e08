"""No attack wins: on every rung, as root and as an ordinary user."""

import pytest

from tests.hostile.arena import ArenaSetting
from tests.hostile.conftest import ALL_SETTINGS, SETTINGS, Arenas
from tests.hostile.corpus import (
    ATTACKS,
    FOLDER,
    KNOWN_LIMITS,
    PAIRED_ATTACK,
    TWINS,
    Attack,
    KnownLimit,
)
from tests.hostile.short_attacks import RETURNED, SENT

REPETITIONS = 20


# What a submission says about itself is judged on the grader's side, which knows no rungs:
# those that are only after points are tried on one of them, and on all in the deep run.
# An ordinary run tries the first of each kind on one rung, by turns, `--whole` all on both.
EACH = [(s, a) for s in SETTINGS for a in ATTACKS if s == SETTINGS[0] or not a.twin]
FIRST = [
    (SETTINGS[0] if attack.twin else SETTINGS[number % 2], attack)
    for number, attack in enumerate(attack for attack in ATTACKS if attack.first)
]


@pytest.mark.sampled(
    ("setting", "attack"), EACH, FIRST, ids=lambda each: getattr(each, "name", str(each))
)
def test_attack_is_contained(arenas: Arenas, setting: ArenaSetting, attack: Attack) -> None:
    arena = arenas(setting)
    assert arena.attack(attack) == []


@pytest.mark.deep
@pytest.mark.parametrize("setting", ALL_SETTINGS, ids=str)
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_attack_is_contained_every_time(
    arenas: Arenas, setting: ArenaSetting, attack: Attack
) -> None:
    arena = arenas(setting)
    assert [arena.attack(attack) for _ in range(REPETITIONS)] == [[]] * REPETITIONS


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
@pytest.mark.parametrize("limit", KNOWN_LIMITS, ids=lambda limit: limit.attack.name)
def test_known_limits_hold_on_the_stated_levels(
    arenas: Arenas, setting: ArenaSetting, limit: KnownLimit
) -> None:
    """When an attack no longer wins on a rung, take the rung out of its entry."""
    won = arenas(setting).attack(limit.attack)
    # One that only crashes has not reached what it attacks.
    more = [each for each in won if not each.startswith("recorded as")]
    assert bool(more) == (setting.level in limit.levels), limit.why


def test_every_file_is_in_the_manifest_and_says_what_it_tries() -> None:
    files = {path.stem for path in (FOLDER / "attacks").glob("*.py")}
    listed = [PAIRED_ATTACK, *ATTACKS, *(limit.attack for limit in KNOWN_LIMITS)]
    assert sorted([*files, *RETURNED, *SENT]) == sorted(attack.name for attack in listed)
    assert all(attack.description.endswith(".") for attack in listed)


def test_wrong_answer_gets_some_points_so_forging_is_visible(arenas: Arenas) -> None:
    arena = arenas(SETTINGS[0])
    [record] = arena.grade(TWINS["wrong"])["records"]
    assert 0 < record["score"] < record["max_score"]
    assert record["status"] == "failed"
