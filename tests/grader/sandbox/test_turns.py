"""Trusted code of several threads: what a request replaces for a while is put back."""

import sys
import threading
import time

from torch import nn

from headcheck.grader.sandbox.grader_side.subject import make_subject


class Slow(nn.Module):
    """Takes as many hundredths of a second to construct as it is told."""

    def __init__(self, hundredths: int) -> None:
        super().__init__()
        time.sleep(hundredths / 100)


def test_requests_of_threads_take_turns_and_leave_the_output_as_it_was() -> None:
    """The first to begin ends first: it would put back what the second took for its own."""
    before = sys.stdout, sys.stderr
    subject = make_subject({"Slow": Slow})
    threads = [
        threading.Thread(target=subject.construct, args=("Slow", {"hundredths": hundredths}, None))
        for hundredths in (10, 20)
    ]
    for thread in threads:
        thread.start()
        time.sleep(0.05)
    for thread in threads:
        thread.join()
    assert (sys.stdout, sys.stderr) == before
