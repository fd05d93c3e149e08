"""The decoder of the wire takes anything: it decodes what is a frame, and refuses the rest."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headcheck
from headcheck.grader.sandbox import wire
from tests.hostile import wire_fuzz
from tests.hostile.wire_fuzz import FuzzTarget, make_frame, make_seed_frames, mutate_frame

numbers = st.integers() | st.sampled_from([2**31, 2**32, 2**63, -1, 0]) | st.floats()
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=9,
)
shapes = st.lists(st.integers(-2, 9) | numbers, max_size=10)
tensors = st.tuples(st.text(max_size=3), st.sampled_from([*wire.DTYPES, "object", ""]), shapes)
headers = st.fixed_dictionaries(
    {"id": st.integers(0, 9) | values, "op": st.sampled_from(["ok", "raised"]) | values},
    optional={"meta": st.dictionaries(st.text(max_size=3), values, max_size=3) | values}
    | {"tensors": st.lists(tensors | values, max_size=3) | values, "more": values},
)


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_or_decoded(data: bytes) -> None:
    """The target raises unless the frame is decoded or refused."""
    FuzzTarget()(data)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1), st.binary(max_size=100))
def test_any_lengths_are_refused_or_decoded(header: int, body: int, rest: bytes) -> None:
    """The target raises unless the frame is decoded or refused."""
    FuzzTarget()(wire.LENGTHS.pack(header, body) + rest)


@given(headers, st.binary(max_size=128))
def test_any_json_header_is_refused_or_decoded(header: object, body: bytes) -> None:
    """The target raises unless the frame is decoded or refused."""
    FuzzTarget()(make_frame(json.dumps(header).encode(), body))


@given(st.randoms(use_true_random=False))
def test_mutated_frames_are_refused_or_decoded(draw: random.Random) -> None:
    """The target raises unless the frame is decoded or refused."""
    target = FuzzTarget()
    for _ in range(20):
        target(mutate_frame(draw, make_seed_frames()))


def test_frames_as_they_are_sent_are_decoded() -> None:
    target = FuzzTarget()
    for data in make_seed_frames():
        target(data)
    assert target.figures.decoded == len(make_seed_frames())


@pytest.mark.parametrize("inputs", [5_000, pytest.param(10**6, marks=pytest.mark.deep)])
def test_many_inputs_stay_below_the_cap(inputs: int) -> None:
    """In a process whose memory is bounded: an allocation above the cap would fail there."""
    environment = {**os.environ, "PYTHONPATH": str(Path(headcheck.__path__[0]).parent)}
    command = [sys.executable, "-P", wire_fuzz.__file__, str(inputs)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith(f"{inputs} inputs")
