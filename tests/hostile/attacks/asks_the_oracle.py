"""Imports the reference and the judge, and answers with what they expect."""

import importlib
import sys


def attack_once():
    for name in [n for n in sys.modules if n.split(".")[0] == "headcheck"]:
        del sys.modules[name]
    sys.path.insert(0, "@project@")
    won = []
    for name in (
        "headcheck.reference",
        "headcheck.properties.bounds.oracle",
        "headcheck.properties.cases.strategies",
        "headcheck.exercises",
        "headcheck.grader.grading.grade",
    ):
        with suppress(Exception):
            module = importlib.import_module(name)
            # An empty folder makes a package, too, which knows nothing.
            if getattr(module, "__file__", None):
                won.append(module.__name__)
    return won
