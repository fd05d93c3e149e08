"""What is not supported is told from what is raised, and where; what is a failure stays one."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader.grading.attempts import has_side_effects
from headcheck.grader.grading.recording import summarise_status
from headcheck.grader.report.points import award_points
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.check import find_first_failure
from headcheck.properties.families.precision import bfloat16_runs
from headcheck.properties.families.purity import evaluation_is_repeatable
from headcheck.properties.families.values import it_equals_the_equation
from headcheck.properties.harness.harness import Harness
from headcheck.properties.property import Property, Verdict, check_in_order
from headcheck.properties.terms.case import Case
from headcheck.properties.violations import support
from headcheck.properties.violations.violation import Status, SubmissionFailed
from tests.submissions import load_source

CPU = Case()
SIXTEEN = replace(CPU, dtype="bfloat16")
ON_GPU = replace(CPU, device="cuda")
EXERCISE = BY_SLUG["simplified_attention"]


def crashed(message: str) -> SubmissionFailed:
    return SubmissionFailed(Status.CRASHED, message, 1, 2)


@pytest.mark.parametrize(
    "message",
    [
        "RuntimeError: No available kernel. Aborting execution.",
        "NotImplementedError: FlexAttention does not support backward on CPU.",
        "RuntimeError: No viable backend for scaled_dot_product_attention was found.",
        "TypeError: Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't "
        "support float64",
        "RuntimeError: derivative for aten::_flash_attention_backward is not implemented",
    ],
)
def test_a_kernel_that_torch_does_not_have_is_not_supported_anywhere(message: str) -> None:
    for case in (CPU, SIXTEEN, ON_GPU):
        assert support.classify_failure(crashed(message), case).status is Status.NOT_TRIED


@pytest.mark.parametrize(
    "message",
    [
        "NotImplementedError: no bfloat16 here",
        "NotImplementedError",
        """RuntimeError: "softmax_lastdim_kernel_impl" not implemented for 'Half'""",
        "NotImplementedError: Could not run 'aten::x' with arguments from the 'CUDA' backend.",
        "RuntimeError: FlashAttention only support fp16 and bf16 data type",
        "ValueError: float64 is not supported on this device",
        "RuntimeError: attn_bias: wrong shape (batch dimension)",
        "RuntimeError: attn_bias is not correctly aligned (strideB). attn_bias.stride( 0) = 9",
        "ValueError: Pointer argument (at 0) cannot be accessed from Triton (cpu tensor?)",
    ],
)
def test_a_device_may_not_support_something_but_the_cpu_does_in_the_usual_dtypes(
    message: str,
) -> None:
    judged = support.classify_failure(crashed(message), ON_GPU)
    assert judged.status is Status.NOT_TRIED
    assert (judged.message, judged.cell, judged.line) == (message, 1, 2)
    for dtype in ("float64", "float32"):
        usual = replace(CPU, dtype=dtype)
        assert support.classify_failure(crashed(message), usual).status is Status.CRASHED


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("NotImplementedError: no bfloat16 here", Status.NOT_TRIED),
        ("""RuntimeError: "lu_cpu" not implemented for 'BFloat16'""", Status.NOT_TRIED),
        ("TypeError: Got unsupported ScalarType BFloat16", Status.CRASHED),  # so numpy says
    ],
)
def test_on_the_cpu_a_dtype_is_unsupported_only_in_these_words(
    message: str, status: Status
) -> None:
    for case in (SIXTEEN, replace(CPU, dtype="float16")):
        assert support.classify_failure(crashed(message), case).status is status


@pytest.mark.parametrize(
    "message",
    [
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied",
        "RuntimeError: Expected all tensors to be on the same device, but found cuda:0 and cpu",
        "AttributeError: 'MultiHead' object has no attribute 'mask'",
    ],
)
def test_a_mistake_is_a_failure_on_every_device(message: str) -> None:
    for case in (CPU, SIXTEEN, ON_GPU):
        assert support.classify_failure(crashed(message), case).status is Status.CRASHED


def test_timeout_is_not_a_lack_of_support() -> None:
    slow = SubmissionFailed(Status.TIMED_OUT, "NotImplementedError")
    assert support.classify_failure(slow, ON_GPU) == slow


def test_the_second_device_is_refused_by_its_name_and_a_stray_is_no_refusal() -> None:
    judged = support.classify_second_device_failure
    assert judged(crashed("RuntimeError: no kernel for Meta tensors")).status is Status.NOT_TRIED
    assert judged(crashed("NotImplementedError")).status is Status.NOT_TRIED
    stray = "RuntimeError: Expected all tensors to be on the same device, but found meta and cpu"
    assert judged(crashed(stray)).status is Status.CRASHED
    assert judged(crashed("IndexError: metaphor")).status is Status.CRASHED


# --------------------------------------------------------------------------- verdicts

NOT_IN_SIXTEEN_BITS = Verdict(
    bfloat16_runs, Status.NOT_TRIED, 1, SIXTEEN, failure=crashed("NotImplementedError: no")
)


def test_unsupported_property_says_why_it_was_not_tried() -> None:
    assert NOT_IN_SIXTEEN_BITS.unsupported
    why = "NotImplementedError: no (cell 1, line 2)"
    assert NOT_IN_SIXTEEN_BITS.message == f"Not tried, because this is not supported: {why}"
    assert NOT_IN_SIXTEEN_BITS.redacted_message == ""


def test_dependants_of_an_unsupported_property_are_tried() -> None:
    def judge(claim: Property, _: Sequence[Case]) -> Verdict:
        if claim is it_equals_the_equation:
            return replace(NOT_IN_SIXTEEN_BITS, property=claim)
        return Verdict(claim, Status.PASSED, 1)

    plan = EXERCISE.plan_cases()
    few = {claim: plan[claim] for claim in (it_equals_the_equation, bfloat16_runs)}
    harness = Harness(make_subject({}), EXERCISE.contract)
    verdicts = list(check_in_order(few, harness, judge))
    assert [v.status for v in verdicts] == [Status.NOT_TRIED, Status.PASSED]


def test_unsupported_property_neither_fails_nor_passes() -> None:
    passed = Verdict(evaluation_is_repeatable, Status.PASSED, 1)
    assert summarise_status([passed, NOT_IN_SIXTEEN_BITS]) is Status.NOT_TRIED
    failed = Verdict(it_equals_the_equation, Status.FAILED, 1)
    assert summarise_status([NOT_IN_SIXTEEN_BITS, failed]) is Status.FAILED
    assert not has_side_effects(replace(NOT_IN_SIXTEEN_BITS, property=evaluation_is_repeatable))


@pytest.mark.parametrize("status", Status)
def test_what_computes_values_has_not_crashed_where_something_else_does(status: Status) -> None:
    odd = Verdict(evaluation_is_repeatable, Status.CRASHED, 1)
    computes = status in (Status.PASSED, Status.FAILED)
    told = summarise_status([odd, Verdict(it_equals_the_equation, status, 9)])
    assert told is (Status.FAILED if computes else Status.CRASHED)
    late = replace(odd, status=Status.TIMED_OUT)
    assert summarise_status([late, Verdict(it_equals_the_equation, status)]) is Status.TIMED_OUT


def test_refusing_earns_no_points() -> None:
    """A class of its own for every kind of refusal earns what a claim shown earns: nothing else."""
    source = """
import torch
def simplified_attention(x):
    raise RuntimeError("No available kernel")
"""
    harness = load_source(source, EXERCISE.contract)

    def check(claim: Property, cases: Sequence[Case]) -> Verdict:
        return find_first_failure(claim, harness, cases)

    verdicts = list(check_in_order(EXERCISE.plan_cases(), harness, check))
    assert sum(award_points(EXERCISE, verdicts, None)) == 0
    assert summarise_status(verdicts) is Status.NOT_TRIED
