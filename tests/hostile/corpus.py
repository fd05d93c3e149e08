"""What every attack must come to: the manifest of `attacks/`.

An attack is a submission for the exercise `multi_head_attention`. Its answer is right where the
attack should be refused without a trace, so that full marks show that nothing else broke; it is
wrong where the attack is after points, so that every point above those of the same wrong answer
without an attack is a forged one. Besides what stands here, every attack is held to the witnesses
of `arena.py`.

A file of `attacks/` holds only what its attack adds to its twin, an honest answer: a function
`attack`, which is called before every answer and returns what it won, or `attack_once`, which is
called before the first; a function `answer`, which is given the input and the output and returns
something in place of the output; or, where that is not enough, a class `MultiHeadAttention` derived
from `Twin`. All of them may use what `BEFORE` defines: `sockets` yields the descriptors that lead
to somebody, and `PIDS` are the processes to harm. An attack of one expression has no file, but a
row in `short_attacks.py`.

The source of an attack names what it is up against by marks that `arena.py` fills in:

    @won@ @token@     to be said on success; part of every name it leaves behind
    @arena@           a folder that everyone may write: canary, results.json, submissions/
    @tcp@ @udp@ @unix@ @abstract@    listeners that must hear nothing
    @grader@ @server@              the processes to harm
    @project@         where the rooms and their solutions lie

Names of the product's functions and classes that an attack looks for stand in a set `TARGETS` at
the top of its file. `test_targets.py` checks that they, and all else that it names, still exist.
"""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headcheck.properties.violations.violation import Status
from tests.hostile.short_attacks import RETURNED, SENT

FOLDER = Path(__file__).parent
PASSED = frozenset({Status.PASSED})
FAILED = frozenset({Status.FAILED})
CRASHED = frozenset({Status.CRASHED})
TIMED_OUT = frozenset({Status.TIMED_OUT})
NO_MEMORY = frozenset({Status.OUT_OF_MEMORY, Status.CRASHED})
ENDED = TIMED_OUT | CRASHED | {Status.NOT_ASKED}
NOT_PASSED = FAILED | CRASHED | TIMED_OUT | NO_MEMORY

TWIN = (FOLDER / "twins" / "right.py").read_text("utf-8")
OVERWRITING = """out = self.out_proj(mixed.transpose(1, 2).flatten(2))
        if x.is_contiguous():
            x.data.mul_(2)
        return out
"""
TWINS = {
    "right": TWIN,
    "wrong": TWIN.replace(", is_causal=True", ""),
    "writes_over_its_input": TWIN.replace(TWIN.splitlines()[-1].strip() + "\n", OVERWRITING),
}
"""honest answers; the wrong one, which does not mask the future, is that of attacks after points"""

BEFORE = """
import functools
import os
import stat
import struct
import torch
from contextlib import suppress

PIDS = [pid for pid in {int("@grader@"), int("@server@"), os.getppid()} if pid > 1]

def attack():
    pass

def attack_once():
    pass

def answer(x, out):
    return out

def sockets():
    for fd in range(64):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                yield fd
        except OSError:
            pass

def frame(text, body=b""):
    return struct.pack("<IQ", len(text), len(body)) + text + body
"""
CALLING = """
@functools.cache
def try_once():
    return attack_once()

class MultiHeadAttention(Twin):
    def forward(self, x):
        if won := try_once() or attack():
            raise RuntimeError(f"@won@ {won}")
        return answer(x, super().forward(x))
"""
QUICK: Mapping[str, float] = {"call_s": 20, "total_s": 40, "cpu_s": 10, "memory": 512 << 20}
"""For attacks that end by themselves, however busy the machine is."""
HANGING: Mapping[str, float] = {**QUICK, "call_s": 0.7, "total_s": 1.5}
"""For those that must be ended."""
BURNING: Mapping[str, float] = {**QUICK, "cpu_s": 3, "memory": 4 << 30}
"""For those that the processor limit must end, not the memory that many threads take."""


@dataclass(frozen=True, slots=True)
class Attack:
    """One file of `attacks/` and what must become of it."""

    name: str
    statuses: frozenset[Status]
    """how it may be recorded"""
    twin: str = ""
    """the honest answer whose points it may not exceed; none where its own answer is right"""
    limits: Mapping[str, float] = field(default_factory=lambda: QUICK)
    times: int = 1
    """how often it is graded, one after the other"""
    first: bool = False
    """whether it stands for its kind in a run that is not whole: it comes first of those alike"""

    @property
    def written(self) -> str:
        """What is its own: its file, or what its row stands for."""
        if self.name in RETURNED:
            said, returned = RETURNED[self.name]
            return f'"""{said}"""\ndef answer(x, out):\n    return {returned}\n'
        if self.name in SENT:
            said, sent = SENT[self.name]
            write = f"    for fd in sockets():\n        os.write(fd, {sent})\n"
            return f'"""{said}"""\ndef attack():\n{write}'
        return (FOLDER / "attacks" / f"{self.name}.py").read_text("utf-8")

    @property
    def source(self) -> str:
        """What is handed in: its twin, what it uses and replaces, its file, and what calls it."""
        twin = TWINS[self.twin or "right"].replace("class MultiHeadAttention", "class Twin")
        handed_in = [twin, BEFORE, self.written]
        if "class MultiHeadAttention" not in self.written:
            called = r"^def (attack(_once)?|answer)\("
            assert re.search(called, self.written, re.MULTILINE), self.name
            handed_in.append(CALLING)
        return "\n".join(handed_in)

    @property
    def description(self) -> str:
        """What it tries, in the words of its first line."""
        return (ast.get_docstring(ast.parse(self.written)) or "").split("\n")[0]


def _make_attacks(
    names: str, ends: frozenset[Status], twin: str = "", limits: Mapping[str, float] = QUICK
) -> list[Attack]:
    """Attacks that end alike. A line of names is a kind, and the first of them its sample."""
    return [
        Attack(name, ends, twin, limits, first=not place)
        for line in names.strip().splitlines()
        for place, name in enumerate(line.split())
    ]


ATTACKS: tuple[Attack, ...] = (
    # It ends, and says so or not: what it was asked has failed.
    *_make_attacks(
        """
        exit_zero exit_zero_while_built exit_zero_at_import system_exit keyboard_interrupt
        segmentation_fault aborts leaves_a_core recursion
        closes_every_descriptor quits_in_an_exit_handler fails_to_fail
        fills_its_socket
        """,
        CRASHED,
    ),
    *_make_attacks("dies_in_a_backward_hook", FAILED),  # its outputs are right
    # The first process of a namespace is not ended by signals that it sends itself.
    *_make_attacks("kills_itself", CRASHED | PASSED),
    *_make_attacks("stops_itself", TIMED_OUT | PASSED, limits=HANGING),
    *_make_attacks("recursion_without_limit thread_bomb", NO_MEMORY | PASSED | TIMED_OUT),
    # It does not end.
    *_make_attacks(
        """
        sleeps_for_ever sleeps_under_the_limit
        loops_in_c loops_in_python loops_in_a_regular_expression loops_in_a_backward_hook
        ignores_all_signals loops_at_import
        answers_byte_by_byte never_reads
        """,
        TIMED_OUT,
        limits=HANGING,
    ),
    *_make_attacks("raises_a_base_exception", TIMED_OUT | CRASHED, limits=HANGING),
    *_make_attacks("burns_many_processors catches_its_limits", ENDED, limits=BURNING),
    # It takes more than it may have.
    *_make_attacks(
        """
        memory_bomb_of_tensors memory_bomb_of_lists memory_bomb_of_bytes memory_bomb_at_import
        reads_without_end
        """,
        NO_MEMORY,
    ),
    # It tries what is refused, and then answers rightly: full marks.
    *_make_attacks(
        """
        memory_bomb_of_maps locks_memory
        fork_bomb daemon forks_by_raw_calls
        raises_its_limits starves_the_grader opens_many_files
        fills_the_disk fills_the_inodes fills_shared_memory prints_forty_megabytes
        leaves_system_v_memory leaves_posix_queues makes_anonymous_files
        reads_system_files reads_other_submissions opens_private_files
        reads_the_environment reads_its_own_stack reads_proc
        climbs_by_handles climbs_by_links climbs_by_proc leaves_by_namespaces
        becomes_somebody_else lowers_its_own_guards
        opens_devices makes_devices opens_malformed_paths
        rewrites_results truncates_results renames_results changes_modes writes_into_packages
        writes_at_exit
        runs_programs executes_over_itself
        connects_by_tcp sends_by_udp looks_up_names
        connects_by_unix_sockets listens_on_unix_sockets opens_odd_sockets
        talks_by_fastopen_and_io_uring
        traces_the_grader reads_the_grader_s_memory signals_by_sockets
        steals_descriptors finds_descriptors outlives_the_grader
        reaches_the_kernel keeps_keys controls_terminals watches_files guesses_random_numbers
        """,
        PASSED,
    ),
    *_make_attacks(
        "signals_the_grader", PASSED | CRASHED
    ),  # a signal to its group is for itself, too
    *_make_attacks(
        "calls_by_another_abi", PASSED | CRASHED
    ),  # the filter kills who calls by a foreign ABI
    Attack("learns_from_earlier_runs", PASSED, times=2, first=True),
    # It speaks to the grader itself.
    *_make_attacks(
        """
        frame_of_noise frame_of_no_json frame_of_deep_json frame_of_pickle
        frame_of_an_endless_body frame_beyond_its_body frame_with_a_rest frame_cut_off
        frame_of_an_unknown_dtype frame_of_a_negative_shape frame_of_an_overflowing_shape
        frame_of_another_number frame_twice
        sends_descriptors
        """,
        CRASHED,
    ),
    *_make_attacks("frame_of_a_giant_header", CRASHED, limits={**QUICK, "call_s": 3, "total_s": 6}),
    *_make_attacks("frame_of_a_giant_body", TIMED_OUT, limits=HANGING),
    # It is after points: its answer is wrong.
    *_make_attacks(
        """
        forges_replies forges_results_on_every_descriptor forges_the_report forges_a_note
        reads_the_solution imports_the_solution reads_the_solution_s_bytecode asks_the_oracle
        hunts_through_gc hunts_through_frames hunts_through_modules
        patches_comparisons patches_the_runner patches_the_encoding patches_builtins
        patches_submission_failures patches_imports patches_memory hooks_every_module
        traces_the_runner watches_torch_functions changes_torch_s_settings
        replaces_its_output_streams
        lying_tensor_subclass lying_wrapper lying_state_dict lying_attributes lying_deepcopy
        lying_class lying_gradient lying_call lying_length
        nan_everywhere infinite_everywhere
        returns_nothing returns_a_string returns_a_number returns_a_list returns_a_generator
        returns_a_dictionary returns_a_module returns_true returns_a_nested_tuple
        returns_a_meta_tensor returns_a_sparse_tensor returns_a_nested_tensor
        returns_a_quantised_tensor returns_complex_numbers returns_a_rare_dtype
        returns_a_gigantic_tensor returns_an_expanded_tensor returns_thirty_dimensions
        returns_an_empty_tensor returns_overlapping_memory returns_freed_memory
        returns_its_input remembers_its_inputs writes_on_its_parameters
        registers_long_names answers_at_length speaks_at_length
        """,
        NOT_PASSED,
        twin="wrong",
    ),
    # What arrives is judged. If that was before its thread wrote on it, it was right.
    *_make_attacks("changes_its_answer_later", NOT_PASSED | PASSED),
    *_make_attacks(
        "lying_parameters returns_a_million_tensors", NOT_PASSED, twin="wrong", limits=HANGING
    ),
)


@dataclass(frozen=True, slots=True)
class KnownLimit:
    """An attack that wins, on which rungs, and why."""

    attack: Attack
    levels: frozenset[str]
    why: str


KNOWN_LIMITS: tuple[KnownLimit, ...] = (
    KnownLimit(
        Attack("hides_its_side_effects", FAILED, twin="writes_over_its_input"),
        frozenset({"A", "B", "B-"}),
        "what only the submission's process can know is told by that process",
    ),
    KnownLimit(
        Attack("learns_by_stat", PASSED),
        frozenset({"B", "B-"}),
        "Landlock does not cover stat: names, sizes and times can be asked for, not contents",
    ),
    KnownLimit(
        Attack("sees_processes", PASSED),
        frozenset({"B", "B-"}),
        "stat works in /proc, too: it can be told which processes exist",
    ),
)
PAIRED_ATTACK = Attack("looks_for_neighbours", PASSED)
"""the attack that is run beside itself: `test_isolation.py`"""
