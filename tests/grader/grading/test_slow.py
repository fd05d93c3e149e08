"""A slow answer is not a wrong one: it is asked for less. A loop without end is still seen."""

import textwrap
import time
from typing import Any

import pytest
import torch

from headcheck.exercises import BY_SLUG
from headcheck.grader.sandbox.limits import Limits
from headcheck.properties.cases.search_cases import estimate_work
from headcheck.properties.cases.small_cases import is_large, make_smaller
from headcheck.properties.terms.case import Case
from tests.grader.conftest import GradeNotebook
from tests.properties.contracts import SLUGS, get_contract

LOOPS = """
    import torch
    def simplified_attention(x):
        rows = []
        for query in x:
            weights = torch.softmax(torch.stack([(query * key).sum() for key in x]), 0)
            row = torch.zeros_like(query)
            for weight, value in zip(weights, x):
                row = row + weight * value
            rows.append(row)
        return torch.stack(rows)
"""
ENDLESS = """
    import torch
    def simplified_attention(x):
        while len(x) > 150: pass
        return torch.softmax(x @ x.T, -1) @ x
"""
LONG = "a_long_sequence_is_right_too"


def test_loops_over_single_tokens_are_asked_for_fewer(grade_notebook: GradeNotebook) -> None:
    """A call may take half of the time that 257 tokens take such loops here."""
    defined: dict[str, Any] = {}
    exec(textwrap.dedent(LOOPS), defined)
    began = time.process_time()
    defined["simplified_attention"](torch.ones(257, 3))
    limits = Limits(call_s=(time.process_time() - began) / 2)
    [record] = grade_notebook(LOOPS, limits=limits).values()
    assert (record.status, record.score) == ("passed", record.max_score)
    assert {p.status for p in record.properties} == {"passed"}


def test_wrong_loops_fail_on_fewer_tokens(grade_notebook: GradeNotebook) -> None:
    wrong = LOOPS.replace("weight * value", "weight * value * (1 + (len(x) > 70))")
    heavy = wrong.replace(
        "rows = []", "sum(i * i for i in range(80 * len(x) ** 2))\n        rows = []"
    )
    [record] = grade_notebook(heavy, limits=Limits(call_s=1.5)).values()
    long = {p.name: p for p in record.properties}[LONG]
    assert record.status == "failed" and long.status == "failed"


def test_a_loop_that_ends_for_few_tokens_only_is_endless(grade_notebook: GradeNotebook) -> None:
    [record] = grade_notebook(ENDLESS, limits=Limits(call_s=1)).values()
    long = {p.name: p for p in record.properties}[LONG]
    assert (record.status, long.status) == ("timed_out", "timed_out")
    assert 0 < record.score < record.max_score


def test_what_there_was_no_time_for_earns_nothing(grade_notebook: GradeNotebook) -> None:
    burn = "until = time.process_time() + 0.05\n        while time.process_time() < until: pass"
    heavy = LOOPS.replace("rows = []", f"{burn}\n        rows = []")
    heavy = heavy.replace("import torch", "import time, torch")
    [record] = grade_notebook(heavy, limits=Limits(total_s=3, call_s=2)).values()
    by_status = {p.status: p for p in record.properties}
    assert by_status.keys() <= {"passed", "not_asked"} and "not_asked" in by_status
    assert record.status == "not_asked" and record.score < record.max_score
    unasked = by_status["not_asked"]
    assert unasked.message.startswith("Not tried for lack of time")
    assert "took more than 3 s in all" in unasked.message


SLOW_CALLS = "import time\n" + BY_SLUG["causal_attention"].solution.replace(
    "        tokens = x.shape[1]\n",
    "        tokens, until = x.shape[1], time.process_time() + 0.04\n"
    "        while time.process_time() < until: pass\n",
)
TRIPLED = """x = x * 1.0
        if x.requires_grad: x.register_hook(lambda gradient: 3 * gradient)
        queries: torch.Tensor ="""
LITTLE = Limits(call_s=1, total_s=12, cpu_s=6)
"""the limits for calls of 0.04 s that the usual ones are for calls of 0.4 s"""


def test_many_slow_calls_are_not_an_endless_one(grade_notebook: GradeNotebook) -> None:
    [record] = grade_notebook(SLOW_CALLS, limits=LITTLE).values()
    assert record.status == "not_asked" and 0 < record.score < record.max_score
    assert {p.status for p in record.properties} <= {"passed", "not_asked"}
    assert {p.group for p in record.properties} == {p.group for p in record.properties if p.asked}
    assert all(p.points <= p.max_points * p.asked for p in record.properties)


def test_time_that_is_used_up_hides_no_wrong_gradients(grade_notebook: GradeNotebook) -> None:
    wrong = SLOW_CALLS.replace("queries: torch.Tensor =", TRIPLED)
    [record] = grade_notebook(wrong, limits=LITTLE).values()
    of_input = next(p for p in record.properties if p.name == "the_gradient_of_the_input_is_right")
    assert of_input.status == "failed" and of_input.points == 0


@pytest.mark.parametrize("slug", SLUGS)
def test_smaller_inputs_fit_the_contract(slug: str) -> None:
    contract = get_contract(slug)
    case = contract.fit(Case(tokens=1025, context_length=1025, batch=3))
    smaller = make_smaller(contract, case, estimate_work(case) // 4)
    if contract.sizes is None:
        assert smaller is not None and estimate_work(smaller) <= estimate_work(case) / 4
        assert contract.fit(smaller) == smaller
    assert is_large(case)
    assert make_smaller(contract, case, 1) is None
