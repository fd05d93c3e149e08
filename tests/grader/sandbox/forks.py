"""What a zygote of the tests is asked to run."""

import json
import os
import sys
import time


def tell(parent: int, fd: int, *arguments: object) -> None:
    """Write down what it was given, and what there is in it."""
    rooms = {"headcheck.reference", "headcheck.properties", "headcheck.exercises"}
    answer = {
        "given": [parent, *arguments],
        "parent": os.getppid(),
        "environment": sorted(os.environ),
        "rooms": sorted(rooms & sys.modules.keys()),
        "torch": "torch" in sys.modules,
        "needless": sorted({"sympy", "torch._dynamo"} & sys.modules.keys()),
    }
    os.write(fd, json.dumps(answer).encode())


def sleep(parent: int, fd: int) -> None:
    """Say that it is there, and stay."""
    os.write(fd, b"here")
    time.sleep(60)
