"""Sleeps in every call for just less than a call may take."""

import time


def attack():
    time.sleep(0.4)
