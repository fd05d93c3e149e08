"""Replaces the exceptions by which its own failure would be told."""

import sys


def attack():
    for module in list(sys.modules.values()):
        for name in ("SubmissionFailed", "Violation", "Refused", "BadFrame", "Unreadable"):
            if hasattr(module, name):
                setattr(
                    module,
                    name,
                    type(name, (StopIteration,), {"__init__": lambda self, *given: None}),
                )
    raise ValueError("quiet")
