"""Replaces builtins that a runner is likely to use."""

import builtins
import sys


def attack():
    builtins.isinstance = lambda thing, kinds: True
    builtins.len = lambda thing: 1
    builtins.all = builtins.any = lambda things: True
    builtins.abs = lambda thing: 0.0
    builtins.AssertionError = type("Quiet", (Exception,), {})
    builtins.__import__ = lambda name, *more: sys.modules.get(name, sys)
