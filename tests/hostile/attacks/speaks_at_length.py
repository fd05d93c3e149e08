"""Describes what it returned in three million letters, to fill the report."""

from headcheck.grader.sandbox.worker import object_calls, runtime


def attack():
    object_calls.describe_result = lambda result: "x" * 3_000_000
    runtime.describe_error = lambda error, position=None: {
        "type": "y" * 10**6,
        "message": "z" * 10**6,
        "cell": 10**18,
        "line": -5,
    }


def answer(x, out):
    return x, x
