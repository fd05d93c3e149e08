"""Raises SystemExit(0) in a call, which ends a careless runner without an error."""

import sys


def attack():
    sys.exit(0)
