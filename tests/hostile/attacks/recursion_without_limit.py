"""Removes Python's recursion limit and recurses until the stack is gone."""

import sys


def fall(n):
    return max(map(fall, [n + 1]))


def attack():
    sys.setrecursionlimit(10**9)
    return fall(0)
