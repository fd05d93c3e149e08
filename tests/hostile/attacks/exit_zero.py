"""Ends its process with status 0 in a call, as if all were well."""

import os


def attack():
    os._exit(0)
