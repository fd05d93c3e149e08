"""A check that a library or a device does not support counts as not tried, with the reason.

Only the error shows that something is not supported, so the error's message is examined, and only
if the case may cause such an error. In the usual dtypes on the CPU torch supports everything unless
a submission restricts it to one kernel, so other errors there are the submission's own. A property
that is not tried earns no points, so nobody gains by raising such an error.
"""

import re
from dataclasses import replace

from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import Status, SubmissionFailed

USUAL_DTYPES = ("float64", "float32")
UNSUPPORTED_KERNEL = re.compile(
    r"No available kernel|No viable backend for scaled_dot_product_attention"
    r"|FlexAttention does not support|no rule registered for HigherOrderOperator flex_attention"
    r"|derivative for '?aten::\S+ is not implemented|the MPS framework doesn't support float64"
)
"""torch's messages if a kernel does not support something, on any device"""
UNSUPPORTED_DTYPE = re.compile(r"^NotImplementedError\b|not implemented for '")
"""the messages on the CPU if a dtype is not supported"""
UNSUPPORTED_DEVICE = re.compile(
    r"^NotImplementedError\b|not implemented for|could not run 'aten::|not supported|unsupported"
    r"|(does not|doesn't|only) supports?\b"
    # vmap gives torch's memory-efficient kernel a mask whose strides that kernel cannot read
    r"|attn_bias(: wrong shape| is not correctly aligned)"
    # Triton's message for a tensor of the CPU: a kernel for GPUs can be tried nowhere else
    r"|cannot be accessed from Triton",
    re.IGNORECASE,
)
"""the messages if a device does not support something"""


def classify_failure(failure: SubmissionFailed, case: Case) -> SubmissionFailed:
    """Return the failure, as NOT_TRIED if the case needs something that is not supported."""
    patterns = [UNSUPPORTED_KERNEL]
    if case.device != "cpu":
        patterns.append(UNSUPPORTED_DEVICE)
    elif case.dtype not in USUAL_DTYPES:
        patterns.append(UNSUPPORTED_DTYPE)
    unsupported = any(pattern.search(failure.message) for pattern in patterns)
    return _mark_not_tried(failure) if unsupported else failure


def classify_second_device_failure(failure: SubmissionFailed) -> SubmissionFailed:
    """Classify a failure on the worker's second device, whose name in messages is "meta"."""
    named = re.search(r"\bmeta\b", failure.message, re.IGNORECASE)
    stray = "same device" in failure.message
    refused = not stray and (named or UNSUPPORTED_DEVICE.search(failure.message))
    return _mark_not_tried(failure) if refused else failure


def _mark_not_tried(failure: SubmissionFailed) -> SubmissionFailed:
    crashed = failure.status is Status.CRASHED
    return replace(failure, status=Status.NOT_TRIED) if crashed else failure
