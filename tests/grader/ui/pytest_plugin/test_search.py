"""The search: what it finds, what it calls it, and what one refused case does not hide."""

import gc
import itertools
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import settings
from hypothesis.database import InMemoryExampleDatabase
from torch import Tensor

from headcheck.exercises import BY_SLUG
from headcheck.grader.ui.pytest_plugin.search import KeptExamples, make_settings
from headcheck.grader.ui.pytest_plugin.suite import (
    PropertySuite,
    PropertyVariant,
    VariantOutcome,
    no_case_is_refused,
)
from headcheck.properties.families.purity import evaluation_is_repeatable
from headcheck.properties.families.values import (
    it_equals_the_equation,
    it_equals_the_streaming_computation,
)
from headcheck.properties.property import Property
from headcheck.properties.terms.size_rules import BadSizes, parse_sizes
from tests.submissions import execute

CONTRACT = BY_SLUG["simplified_attention"].contract
Answer = Callable[[Tensor], Tensor]
SEARCH = settings(
    max_examples=100, derandomize=True, database=None, deadline=None, print_blob=False
)


@pytest.fixture(autouse=True)
def _profile() -> object:
    """The profile of a user, whatever that of these tests is."""
    before = settings.get_current_profile_name()
    settings.register_profile("of a user", SEARCH)
    settings.load_profile("of a user")
    yield
    settings.load_profile(before)


def few_examples() -> None:
    """A user who has little time: enough where nothing is to be found."""
    settings.register_profile("few", SEARCH, max_examples=40)
    settings.load_profile("few")


def right(x: Tensor) -> Tensor:
    return torch.softmax(x @ x.mT, dim=-1) @ x


def wrong_when_long(x: Tensor) -> Tensor:
    return right(x) + 0.1 * (x.shape[0] > 40)


def refuses_odd_widths(x: Tensor) -> Tensor:
    if x.shape[1] % 2:
        raise ValueError("d_in must be even")
    return right(x)


OF_THE_BANK = (128, 130, 160)
"""the bank has these, so that they find nothing new"""


def refuses_lengths_between(x: Tensor) -> Tensor:
    if 80 < x.shape[0] < 250 and x.shape[0] not in OF_THE_BANK:
        raise ValueError("not for so many tokens")
    return right(x)


def suite(answer: Answer, sizes: str = "") -> PropertySuite:
    rules = parse_sizes(sizes) if sizes else None
    return PropertySuite({CONTRACT.name: answer}, CONTRACT, cases=4, sizes=rules)


def variant(prop: Property, dtype: str = "float64") -> PropertyVariant:
    return PropertyVariant(prop, "cpu", dtype)


# -------------------------------------------------------------------------------- finds


def test_a_right_answer_passes_the_search() -> None:
    few_examples()
    tried = suite(right)
    for each in tried.list_variants(["cpu"])[::7]:
        assert not tried.search(each).failure


def test_what_the_bank_does_not_reach_is_found_and_shrunk_to_the_edge() -> None:
    tried = suite(wrong_when_long)
    assert tried.get_outcome(variant(it_equals_the_equation)) == VariantOutcome()
    message = tried.search(variant(it_equals_the_equation)).failure
    assert message.startswith("Fails: The output equals the equation")
    assert "  on        tokens=41 d=1 float64 cpu seed=0" in message
    assert "  hint      " in message and "  got       " in message


def test_a_find_is_reported_as_the_property_that_is_its_cause() -> None:
    message = suite(wrong_when_long).search(variant(it_equals_the_streaming_computation)).failure
    assert message.startswith("Fails: The output equals the equation")
    assert "searched  for a case without: The output equals attention computed one key" in message


def test_two_searches_with_one_seed_find_the_same() -> None:
    first, second = (
        suite(wrong_when_long).search(variant(it_equals_the_equation)) for _ in range(2)
    )
    assert first == second


def test_what_fails_only_sometimes_is_not_deterministic() -> None:
    calls = itertools.count()

    def sometimes(x: Tensor) -> Tensor:
        return right(x) + (next(calls) == 30)

    tried = suite(sometimes)
    message = tried.search(variant(evaluation_is_repeatable)).failure
    assert not message or message.startswith("It is not deterministic")
    messages = []
    for start in range(20, 30):  # some of these fail in the search itself
        calls = itertools.count(start)
        single = suite(sometimes)
        single.explain_skipping = lambda variant: None  # type: ignore[method-assign]
        messages.append(single.search(variant(it_equals_the_equation)).failure)
    message = next(filter(None, messages))
    assert message.startswith("It is not deterministic: a case on which this failed passed")
    assert "The output equals the equation" in message


# ----------------------------------------------------------------------------- refusals


def test_a_refused_case_hides_no_other_and_is_reported_by_itself() -> None:
    tried = suite(refuses_odd_widths)
    outcomes = {each: tried.get_outcome(each) for each in tried.list_variants(["cpu"])}
    failing = [each.name for each, outcome in outcomes.items() if outcome.failure]
    assert failing == ["no_case_is_refused[cpu-float64]", "no_case_is_refused[cpu-float32]"]
    passed = [each for each, outcome in outcomes.items() if outcome == VariantOutcome()]
    assert len(passed) > 0.7 * len(outcomes)
    message = outcomes[variant(no_case_is_refused)].failure
    assert message.startswith("Crashed in this check: No case that the contract allows is refused.")
    assert "ValueError: d_in must be even" in message
    assert " cases; the properties are tried on the others" in message


def test_a_refused_case_does_not_hide_a_wrong_answer_on_another() -> None:
    def answer(x: Tensor) -> Tensor:
        return refuses_odd_widths(x) * 1.5

    outcome = suite(answer).get_outcome(variant(it_equals_the_equation))
    assert outcome.failure.startswith("Fails: The output equals the equation")


def test_where_every_case_is_refused_each_property_says_so() -> None:
    def refuses(x: Tensor) -> Tensor:
        raise ValueError("not yet written")

    tried = suite(refuses)
    outcomes = {each.name: tried.get_outcome(each) for each in tried.list_variants(["cpu"])}
    shape = outcomes["the_output_has_the_right_shape[cpu-float64]"]
    assert "ValueError: not yet written" in shape.failure
    assert "not tried, because of" in outcomes["it_equals_the_equation[cpu-float64]"].skipped
    assert "not tried, because of" in outcomes["no_case_is_refused[cpu-float64]"].skipped


def test_a_refusal_that_only_the_search_finds_is_reported_by_itself() -> None:
    tried = suite(refuses_lengths_between)
    assert tried.get_outcome(variant(no_case_is_refused)) == VariantOutcome()
    message = tried.search(variant(no_case_is_refused)).failure
    assert "ValueError: not for so many tokens" in message
    # Whether a search comes past the sizes of the bank, which are not refused, is luck.
    assert re.search(r"tokens=(8[1-9]|9\d|1[0-3]\d) d=1 float64 cpu seed=0", message)
    assert tried.search(variant(it_equals_the_equation)) == VariantOutcome()


def test_a_refusal_that_one_search_alone_has_met_is_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried = suite(refuses_lengths_between)
    monkeypatch.setattr(tried, "reports_refusals", lambda device, dtype: False)
    message = tried.search(variant(it_equals_the_equation)).failure
    assert message.startswith("Crashed in this check: No case that the contract allows is refused.")
    assert "searched  for a case without: The output equals the equation" in message


def test_a_dtype_that_is_not_there_is_skipped_in_the_search_too() -> None:
    def answer(x: Tensor) -> Tensor:
        if x.dtype is torch.bfloat16:
            raise NotImplementedError("no kernel for bfloat16")
        return right(x)

    outcome = suite(answer).search(variant(it_equals_the_equation, "bfloat16"))
    assert outcome.skipped == "not supported: NotImplementedError: no kernel for bfloat16"


# ------------------------------------------------------------------------------- sizes


@pytest.mark.whole
def test_sizes_leave_out_what_would_be_refused() -> None:
    tried = suite(refuses_odd_widths, "d_in=even")
    for each in tried.list_variants(["cpu"]):
        assert not tried.get_outcome(each).failure, each.name
    assert tried.search(variant(no_case_is_refused)) == VariantOutcome()
    assert all(case.d_in % 2 == 0 for case in tried.case_set)


def test_sizes_that_no_case_has_are_refused_at_once() -> None:
    with pytest.raises(BadSizes, match="has no sizes that keep"):
        suite(right, "heads=2")


# ------------------------------------------------------------------- the user's settings


def test_costly_properties_get_fewer_examples_and_none_gets_none() -> None:
    for limit, count in ((24, 100), (60, 100), (6, 25), (3, 13), (1, 5)):
        prop = replace(it_equals_the_equation, limit=limit)
        assert make_settings(prop, "").max_examples == count


def test_settings_of_the_profile_are_kept_and_a_search_has_no_deadline() -> None:
    settings.register_profile("fast", max_examples=7, deadline=1, database=None)
    settings.load_profile("fast")
    made = make_settings(it_equals_the_equation, "")
    assert (made.max_examples, made.deadline, made.database) == (7, None, None)
    assert not made.report_multiple_bugs


def test_examples_are_kept_in_the_users_database_each_search_apart() -> None:
    database = InMemoryExampleDatabase()
    settings.register_profile("kept", max_examples=100, database=database, deadline=None)
    settings.load_profile("kept")
    long_sequences_are_wrong = suite(wrong_when_long)
    while not long_sequences_are_wrong.search(variant(it_equals_the_equation)).failure:
        pass  # with a chance of 1 in 100,000 it is not found at once
    found = dict(database.data)
    assert found
    # The same search of what is right meets the example, and leaves it there.
    assert suite(right).search(variant(it_equals_the_equation)) == VariantOutcome()
    kept = [key for key in found if not key.endswith((b".secondary", b".pareto"))]
    assert all(database.data[key] == found[key] for key in kept)
    # Now it is found without a search.
    settings.register_profile("one", max_examples=1, database=database, deadline=None)
    settings.load_profile("one")
    assert "tokens=41 " in suite(wrong_when_long).search(variant(it_equals_the_equation)).failure


def test_two_searches_share_no_examples() -> None:
    database = InMemoryExampleDatabase()
    one, other = KeptExamples(database, "one"), KeptExamples(database, "other")
    one.save(b"key", b"value")
    one.save(b"key.secondary", b"larger")
    assert list(one.fetch(b"key")) == [b"value"] and list(other.fetch(b"key")) == []
    one.delete(b"key", b"value")
    one.delete(b"key.secondary", b"larger")
    assert list(one.fetch(b"key")) == [b"value"] and list(one.fetch(b"key.secondary")) == []
    one.move(b"key", b"key.secondary", b"value")
    assert list(one.fetch(b"key")) == [] and list(one.fetch(b"key.secondary")) == [b"value"]


@pytest.mark.whole
def test_a_property_of_modules_is_searched_in_sizes_of_its_own() -> None:
    exercise = BY_SLUG["multi_head_attention"]
    namespace = execute(exercise.solution)
    few_examples()
    tried = PropertySuite(namespace, exercise.contract, 3, sizes=parse_sizes("head_dim=even"))
    for each in tried.list_variants(["cpu"])[::9]:
        assert not tried.search(each).failure, each.name


def test_a_search_keeps_no_module() -> None:
    exercise = BY_SLUG["self_attention_v2"]
    namespace = execute(exercise.solution)
    tried = PropertySuite(namespace, exercise.contract, 2)
    assert not tried.search(variant(it_equals_the_equation)).failure
    kept = [each for each in gc.get_objects() if type(each) is namespace[exercise.contract.name]]
    assert len(kept) < 60  # those of the bank
