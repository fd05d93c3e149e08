"""Each layer matters: where it is left out, a named attack wins that loses where it is there.

Some layers have another one behind them that stops the same attacks. That one is then left out on
both sides of the comparison.
"""

from dataclasses import dataclass

import pytest

from tests.hostile.arena import ArenaSetting
from tests.hostile.conftest import DEFAULT_USER, Arenas
from tests.hostile.corpus import ATTACKS, KNOWN_LIMITS
from tests.hostile.users import NOBODY


@dataclass(frozen=True, slots=True)
class Ablation:
    """A layer, and an attack that it stops."""

    layer: str
    attack: str
    given_up: tuple[str, ...] = ()
    """other layers that would stop it, too"""
    user: int | None = DEFAULT_USER
    level: str = "A"

    def __str__(self) -> str:
        return f"{self.layer}-{self.attack}"


ABLATIONS = (
    # On A, what Landlock forbids to open is covered by empty folders, too.
    Ablation("landlock", "reads_other_submissions", level="B"),
    Ablation("landlock", "reads_the_solution", level="B"),
    Ablation("landlock", "rewrites_results", level="B"),
    Ablation("landlock", "learns_from_earlier_runs", level="B"),
    Ablation("namespaces", "learns_by_stat"),
    Ablation("seccomp", "fork_bomb"),
    Ablation("seccomp", "changes_modes", level="B"),
    Ablation("seccomp", "connects_by_unix_sockets", level="B"),
    Ablation("seccomp", "reaches_the_kernel"),
    Ablation("seccomp", "calls_by_another_abi"),
    Ablation("rlimits", "opens_many_files"),
    Ablation("rlimits", "memory_bomb_of_bytes"),
    Ablation("rlimits", "thread_bomb"),
    # Behind these stands seccomp, which lets no socket and no signal to others through.
    Ablation("namespaces", "sends_by_udp", ("seccomp",)),
    Ablation("scopes", "signals_the_grader", ("seccomp",), level="B"),
    Ablation("quota", "fills_the_disk"),
    Ablation("quota", "fills_the_inodes"),
    Ablation("closing", "finds_descriptors"),
    Ablation("environment", "reads_the_environment"),
    # Behind the change of user stands Landlock, which asks nobody who they are.
    Ablation("owner", "opens_private_files", ("landlock",), user=None, level="B"),
    Ablation("wire", "frame_of_a_giant_header"),
)
UNPROVEN = {
    "capabilities": (
        "a submission has them, if at all, in a user namespace of its own alone; every call that "
        "would use one is refused by seccomp, and mounting by Landlock, too"
    ),
}
"""layers without which no attack of the corpus wins, and why they are there all the same"""


BY_NAME = {a.name: a for a in (*ATTACKS, *(limit.attack for limit in KNOWN_LIMITS))}
FIRST = {case.layer: case for case in reversed(ABLATIONS)}
SAMPLE = [case for case in FIRST.values() if case.layer != "wire"][::6]
"""a sixth of the layers: each case takes a grader process or two, that of the wire ten seconds"""


@pytest.mark.sampled("case", ABLATIONS, SAMPLE, ids=str)
def test_an_attack_wins_where_a_layer_is_left_out(arenas: Arenas, case: Ablation) -> None:
    if case.layer == "owner" and DEFAULT_USER != NOBODY:
        pytest.skip("the grader is no root that could become somebody else")
    attack = BY_NAME[case.attack]
    whole = arenas(ArenaSetting(case.level, case.user, case.given_up))
    assert whole.attack(attack) == []
    ablated = arenas(ArenaSetting(case.level, case.user, (*case.given_up, case.layer)))
    assert ablated.attack(attack) != []


@pytest.mark.whole
def test_landlock_without_truncate_protection_is_not_enough(arenas: Arenas) -> None:
    arena = arenas(ArenaSetting("B-", DEFAULT_USER, ("landlock after version 2",)))
    assert arena.state["rung"] == "C"
    assert any("it takes 3" in why for why in arena.state["missing"])
