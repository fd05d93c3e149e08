"""What a library or a device does not support is no failure: it is not tried, and says why.

Whether that is so cannot be known for certain: it is told from what is raised, and only where it
can be the reason. In the usual dtypes on the CPU torch computes everything but what a submission
restricts to one of its kernels; so whatever is raised there is the submission's own doing. A claim
that is not tried earns no points, so nobody gains by raising such an error.
"""

import re
from dataclasses import replace

from properties.case import Case
from properties.violation import Status, SubmissionFailed

USUAL_DTYPES = ("float64", "float32")
UNSUPPORTED_KERNEL = re.compile(
    r"No available kernel|No viable backend for scaled_dot_product_attention"
    r"|derivative for '?aten::\S+ is not implemented|the MPS framework doesn't support float64"
)
"""what torch says where a kernel does not do something, on any device"""
UNSUPPORTED_DTYPE = re.compile(r"^NotImplementedError\b|not implemented for '")
"""what is said on the CPU where a dtype is not supported"""
UNSUPPORTED_DEVICE = re.compile(
    r"^NotImplementedError\b|not implemented for|could not run 'aten::|not supported|unsupported"
    r"|(does not|doesn't|only) supports?\b",
    re.IGNORECASE,
)
"""what is said where a device does not support something"""


def classify_failure(failure: SubmissionFailed, case: Case) -> SubmissionFailed:
    """The failure; as one that leaves the claim untried if the case asks for something special."""
    said = [UNSUPPORTED_KERNEL]
    if case.device != "cpu":
        said.append(UNSUPPORTED_DEVICE)
    elif case.dtype not in USUAL_DTYPES:
        said.append(UNSUPPORTED_DTYPE)
    return (
        _mark_not_tried(failure) if any(each.search(failure.message) for each in said) else failure
    )


def classify_second_device_failure(failure: SubmissionFailed) -> SubmissionFailed:
    """The same for a call on the worker's second device, which calls itself "meta"."""
    named = re.search(r"\bmeta\b", failure.message, re.IGNORECASE)
    stray = "same device" in failure.message
    refused = not stray and (named or UNSUPPORTED_DEVICE.search(failure.message))
    return _mark_not_tried(failure) if refused else failure


def _mark_not_tried(failure: SubmissionFailed) -> SubmissionFailed:
    return (
        replace(failure, status=Status.NOT_TRIED) if failure.status is Status.CRASHED else failure
    )
