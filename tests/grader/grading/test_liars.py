"""A submission may answer in its host's place: whatever it says is judged, and never believed."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from headcheck.exercises import BY_SLUG, Exercise
from headcheck.grader.sandbox.grader_side.subject import Channel, ChannelSubject, InProcessChannel
from headcheck.grader.sandbox.wire import Message
from headcheck.grader.sandbox.worker.runtime import WorkerRuntime
from headcheck.properties.cases.case_set import generate_case_set
from headcheck.properties.check import check_property
from headcheck.properties.harness.harness import Harness

Tensors = tuple[tuple[str, Tensor], ...]
NONSENSE: tuple[Any, ...] = (None, -1, 10**9, "x", [], {}, [None], {"a": 1}, 2.5, True, 9000 * "x")
DTYPES = (torch.bool, torch.int64, torch.uint8, torch.bfloat16, torch.float64)


@dataclass
class Liar:
    """A channel to an honest host, some of whose replies it damages."""

    host: Channel
    draw: random.Random
    rate: float
    lies: list[str] = field(default_factory=list)

    def request(self, op: str, meta: Mapping[str, Any], tensors: Tensors = ()) -> Message:
        reply = self.host.request(op, meta, tensors)
        if self.draw.random() >= self.rate:
            return reply
        self.lies.append(op)
        given, said = list(reply.tensors), dict(reply.meta)
        at = self.draw.randrange(len(given)) if given else 0
        match self.draw.randrange(8) if given else self.draw.choice((0, 1, 2)):
            case 0:
                given.append(("more", torch.zeros(2)))
            case 1 if said:
                del said[self.draw.choice(list(said))]
            case 2 if said:
                said[self.draw.choice(list(said))] = self.draw.choice(NONSENSE)
            case 3:
                del given[at]
            case 4:
                given.clear()
            case 5:
                shape = [self.draw.randrange(4) for _ in range(self.draw.randrange(5))]
                given[at] = given[at][0], torch.rand(shape)
            case 6:
                given[at] = given[at][0], given[at][1].to(self.draw.choice(DTYPES))
            case 7:
                given[at] = "other name", given[at][1]
        return replace(reply, meta=said, tensors=tuple(given))


def judged(exercise: Exercise, seed: int) -> None:
    """Some claims about the solution, over a channel that lies; only faults of ours raise."""
    namespace: dict[str, Any] = {"__name__": "submission"}
    exec(exercise.solution, namespace)
    draw = random.Random(f"{exercise.slug} {seed}")
    liar = Liar(InProcessChannel(WorkerRuntime(namespace)), draw, draw.choice([0.02, 0.1, 0.4]))
    harness = Harness(ChannelSubject(liar), exercise.contract)
    cases = generate_case_set(exercise.contract, 3, seed)
    for wanted in draw.sample(exercise.properties, min(6, len(exercise.properties))):
        verdict = check_property(wanted, harness, wanted.select_cases(harness.contract, cases))
        assert len(verdict.message) < 5000


SEEDS = 10
LIES = [(slug, seed) for slug in BY_SLUG if slug != "gpt2_size" for seed in range(SEEDS)]


@pytest.mark.sampled(("slug", "seed"), LIES, LIES[:: 2 * SEEDS - 1])
def test_lying_objects_get_a_verdict_and_no_internal_error(slug: str, seed: int) -> None:
    judged(BY_SLUG[slug], seed)
