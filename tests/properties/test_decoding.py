"""Decoding with a cache: each claim accuses what breaks it, and a module may keep its own cache."""

import functools
import itertools
from dataclasses import replace
from typing import Any

import pytest
from torch import Tensor

from headcheck.exercises import BY_SLUG
from headcheck.exercises.answers import find_answer
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.cases.case_set import generate_case_set
from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.families import decoding, list_properties
from headcheck.properties.harness.harness import Harness, LiveContext
from headcheck.properties.mistakes.catalogue import cached_calls
from headcheck.properties.mistakes.catalogue.cached_calls import CachedWay, in_some_calls
from headcheck.properties.mistakes.catalogue.mistake import Mistake
from headcheck.properties.mistakes.recognisers.cached_calls import RECOGNISERS, CachedOutputs
from headcheck.properties.mistakes.recognisers.recogniser import recognise
from headcheck.properties.mistakes.steps.cached_calls import Lengths
from headcheck.properties.property import Property
from headcheck.properties.terms.call_form import CacheConvention, Taken
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import SubmissionFailed, Violation
from tests.submissions import execute

EXERCISE = BY_SLUG["kv_cache"]
HANDED = EXERCISE.contract
OF_MASKS = decoding.padded_prompts_are_continued_as_each_alone
ALL = [prop for prop in list_properties(decoding) if prop is not OF_MASKS]
NAMES = {prop.name for prop in ALL}
KEPT_OF = replace(
    HANDED,
    name="KeepsItsCache",
    call_form=replace(
        HANDED.call_form, cache=CacheConvention(argument="use_cache", reset="reset_cache")
    ),
    capabilities=HANDED.capabilities - {Capability.HANDED_CACHE},
)
KEEPING = """
class KeepsItsCache(CachedAttention):
    kept = None

    def forward(self, x, use_cache=False):
        output, kept = super().forward(x, self.kept if use_cache else None)
        if use_cache:
            self.kept = kept
        return output

    def reset_cache(self):
        self.kept = None
"""


def list_broken(namespace: dict[str, Any], contract: Contract = HANDED) -> dict[str, str]:
    """Return the claims about caches that do not hold, with what is said, on a case of each."""
    harness = Harness(make_subject(namespace), contract)
    cases = generate_case_set(contract, EXERCISE.cases)
    asked = (prop for prop in ALL if prop.applies_to(contract))
    told = {prop.name: tell(prop, harness, prop.select_cases(contract, cases)) for prop in asked}
    return {name: message for name, message in told.items() if message}


def tell(prop: Property, harness: Harness, cases: tuple[Case, ...]) -> str:
    assert cases
    try:
        for case in cases:
            prop.check(harness.get_context(case))
    except Violation as violation:
        return violation.got
    except SubmissionFailed as failure:
        return failure.message
    return ""


def solve(*edits: tuple[str, str]) -> dict[str, Any]:
    """Return the solution's definitions, with what the edits put in its place."""
    source = EXERCISE.solution
    for old, new in edits:
        assert source.count(old) == 1
        source = source.replace(old, new)
    return execute(source)


def test_a_method_that_sets_up_a_cache_is_given_what_the_contract_says() -> None:
    takes: dict[str, Taken] = {"size": Taken.BATCH, "kind": Taken.DTYPE}
    cache = CacheConvention(argument="use_cache", reset="reset_cache", reset_takes=takes)
    sized = replace(KEPT_OF, call_form=replace(KEPT_OF.call_form, cache=cache))
    checked = (
        "def reset_cache(self, size, kind):\n        assert size > 0 and kind.is_floating_point"
    )
    keeping = KEEPING.replace("def reset_cache(self):", checked)
    assert list_broken(execute(EXERCISE.solution, keeping), sized) == {}


def test_they_belong_to_what_has_a_cache_alone() -> None:
    assert {p.name for p in EXERCISE.properties} >= NAMES
    for each in BY_SLUG.values():
        has = each.contract.has(Capability.CACHE)
        asked = NAMES if has else set()
        if each.contract.has(Capability.LATENT):  # what is kept has a name of its own there
            asked = asked - {"kept_keys_and_values_are_not_computed_again"}
        assert NAMES & {p.name for p in each.properties} == asked


def test_the_solution_keeps_them() -> None:
    assert list_broken(solve()) == {}


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("cache_grows_in_place", {"a_cache_can_be_continued_twice"}),
        ("room_for_a_hundred", {"a_large_cache_is_right_too"}),
        ("tokens_are_kept", {"kept_keys_and_values_are_not_computed_again"}),
        (
            "cache_kept_in_the_module",
            {"a_cache_can_be_continued_twice", "sequences_keep_their_caches_apart"},
        ),
    ],
)
def test_what_goes_wrong_beside_the_numbers_breaks_its_own(name: str, broken: set[str]) -> None:
    assert list_broken(execute(find_answer(EXERCISE, name).source)).keys() == broken


def test_what_follows_a_cache_sees_nothing_of_it() -> None:
    remembers = (
        "context = (weights",
        "again, self.used = getattr(self, 'used', False), cache is not None\n"
        "        context = (1 + (again and cache is None)) * (weights",
    )
    assert "a_call_without_a_cache_begins_anew" in list_broken(solve(remembers))


def test_a_result_without_a_cache_is_told_of() -> None:
    told = list_broken(solve((", (keys, values)  #", "  #")))
    assert set(told.values()) == {"no cache comes back from `forward`, but one Tensor"}


def test_an_output_that_is_no_tensor_is_told_of() -> None:
    pairs = ("return self.out_proj(context),", "return {0: self.out_proj(context)},")
    told = list_broken(solve(pairs))
    given = "a tuple of 2 (dict, tuple)"
    assert set(told.values()) == {f"an output and a cache are to come back, not {given}", given}


def test_a_module_may_keep_its_own_cache() -> None:
    assert list_broken(execute(EXERCISE.solution, KEEPING), KEPT_OF) == {}


@pytest.mark.parametrize(
    ("old", "new", "broken"),
    [
        ("    self.kept = None", "    pass", "sequences_keep_their_caches_apart"),
        ("self.kept = kept", "pass", "one_token_at_a_time_gives_the_same_output"),
        ("self.kept if use_cache else None", "self.kept", "a_call_without_a_cache_begins_anew"),
    ],
)
def test_a_module_that_keeps_it_wrongly_is_accused(old: str, new: str, broken: str) -> None:
    assert KEEPING.count(old) == 1
    faulty = KEEPING.replace(old, new)
    assert broken in list_broken(execute(EXERCISE.solution, faulty), KEPT_OF)


def test_nobody_is_asked_to_go_back_who_keeps_one_cache() -> None:
    asked = {prop.name for prop in ALL if prop.applies_to(KEPT_OF)}
    assert NAMES - asked == {"a_cache_can_be_continued_twice"}


LLAMA = BY_SLUG["llama_attention"]
UNEVEN: Lengths = (1, 2, 1, 3)


@functools.cache
def look_at_llama() -> LiveContext:
    case = Case(batch=2, tokens=7, d_in=5, heads=2, group=2, head_dim=4, seed=3, sharpness=2)
    harness = Harness(make_subject(execute(LLAMA.solution)), LLAMA.contract)
    return harness.get_context(LLAMA.contract.fit(case))


def attend_in_calls(context: LiveContext, way: CachedWay, lengths: Lengths) -> Tensor:
    return CachedOutputs(context, {}).attend_in_calls(way, lengths)


def name(context: LiveContext, outputs: dict[Lengths, Tensor]) -> list[tuple[Mistake, str]]:
    found = recognise(CachedOutputs(context, outputs), RECOGNISERS)
    return [(each.mistake, each.words) for each in found]


def test_other_ways_differ_where_tokens_come_in_uneven_parts() -> None:
    context = look_at_llama()
    evidence = CachedOutputs(context, {})
    asked = (way for way in evidence.list_ways() if "bias" not in way.words)
    ways = [way for way in asked if "first head" not in way.words]  # there is one
    outputs = [evidence.attend_in_calls(way, UNEVEN) for way in ways]
    outputs.append(context.expected.outputs[0])
    for one, other in itertools.combinations(outputs, 2):
        assert float((one - other).abs().max()) > 0.01


@pytest.mark.parametrize("way", cached_calls.POSITIONS, ids=lambda way: way.words)
def test_a_way_is_recognised_by_two_schedules(way: CachedWay) -> None:
    context = look_at_llama()
    schedules: tuple[Lengths, ...] = ((1,) * 7, UNEVEN)
    outputs = {lengths: attend_in_calls(context, way, lengths) for lengths in schedules}
    assert name(context, outputs) == [(way.mistake, way.words)]
    outputs[UNEVEN] = outputs[UNEVEN].flip(1)
    assert name(context, outputs) == []


def test_a_way_of_some_calls_is_told_as_such() -> None:
    context = look_at_llama()
    unmasked = next(way for way in cached_calls.VISIBILITIES if "after them" in way.words)
    right = context.expected.outputs[0]
    early = attend_in_calls(context, unmasked, (1, 3, 2, 1))
    early[:, 4:] = right[:, 4:]
    evidence = CachedOutputs(context, {(1, 3, 2, 1): early, UNEVEN: right})
    [found] = recognise(evidence, RECOGNISERS)
    assert found.mistake.name == in_some_calls(unmasked.mistake).name
    assert found.words == f"{unmasked.words}, in some of the calls"
    assert found.cases_matched < found.cases_tried == 8


@pytest.mark.parametrize("number", [1, 3])
def test_a_limit_is_recognised_with_its_number(number: int) -> None:
    context = look_at_llama()
    limit, *_ = cached_calls.list_limits(number)
    schedules: tuple[Lengths, ...] = ((1,) * 7, UNEVEN)
    outputs = {lengths: attend_in_calls(context, limit, lengths) for lengths in schedules}
    assert name(context, outputs) == [(limit.mistake, limit.words)]


def test_every_way_is_one_of_the_mistakes_with_a_name() -> None:
    evidence = CachedOutputs(look_at_llama(), {})
    ways = (*evidence.list_ways(), *cached_calls.list_limits(1))
    assert {way.mistake for way in ways} == {*cached_calls.CACHED_CALLS}
