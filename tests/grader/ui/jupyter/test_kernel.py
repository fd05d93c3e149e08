"""In a real kernel: every starter from top to bottom, also once it is solved, and an interrupt.

One kernel for all of them, emptied in between: to start it costs more than to run a notebook.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from nbformat import NotebookNode

import headcheck
from headcheck.exercises import ALL, Exercise, starter
from headcheck.exercises.starter import BEGIN, END, PLACEHOLDER

ROOMS = str(Path(headcheck.__path__[0]).parent)
EMPTIED = "get_ipython().reset(new_session=True)"


@pytest.fixture(scope="module")
def kernel(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[KernelManager, BlockingKernelClient]]:
    """A kernel in a folder of its own, which finds the package that is tested."""
    folder = tmp_path_factory.mktemp("kernel")
    there = {"PYTHONPATH": ROOMS, "IPYTHONDIR": str(folder / "ipython"), "OMP_NUM_THREADS": "1"}
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(cwd=str(folder), env=os.environ | there)
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        yield manager, client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.fixture
def fresh(
    kernel: tuple[KernelManager, BlockingKernelClient],
) -> tuple[KernelManager, BlockingKernelClient]:
    """The kernel with nothing defined, counting its cells from 1."""
    kernel[1].execute_interactive(EMPTIED, timeout=60, store_history=False)
    return kernel


def executed(
    notebook: NotebookNode, kernel: tuple[KernelManager, BlockingKernelClient]
) -> list[NotebookNode]:
    """The code cells after running all of them; a cell that raises fails the test."""
    manager, client = kernel
    runner = NotebookClient(notebook, km=manager, timeout=120)
    runner.kc = client
    runner.execute()
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def started(exercise: Exercise) -> NotebookNode:
    read: NotebookNode = nbformat.reads(starter.render_notebook(exercise), as_version=4)
    return read


def solved(exercise: Exercise) -> NotebookNode:
    """The starter with the solution's cells in place of those that are to be written in."""
    notebook = started(exercise)
    chunks = re.split(r"^# %%.*\n", exercise.solution, flags=re.M)
    answers = [
        "\n".join(line for line in chunk.splitlines() if line.strip() not in (BEGIN, END))
        for chunk in chunks
        if BEGIN in chunk
    ]
    to_write = [cell for cell in notebook.cells if PLACEHOLDER in cell.source]
    for cell, answer in zip(to_write, answers, strict=True):
        cell.source = answer
    return notebook


def shown(cell: NotebookNode) -> tuple[str, str]:
    """The result that a cell ends with: as text and as HTML."""
    found = [output for output in cell.outputs if output.output_type == "execute_result"]
    assert len(found) == 1
    return found[0].data["text/plain"], found[0].data["text/html"]


@pytest.mark.sampled("exercise", ALL, ALL[1::20], ids=lambda e: e.slug)
def test_starter_runs_and_is_reported_unsolved(
    exercise: Exercise, fresh: tuple[KernelManager, BlockingKernelClient]
) -> None:
    text, page = shown(executed(started(exercise), fresh)[-1])
    headline = text.splitlines()[0]
    assert f"{exercise.slug} ({exercise.contract.name})  0 / " in headline
    assert not headline.endswith("passed")
    assert "0 / " in page


@pytest.mark.sampled("exercise", ALL, ALL[3::20], ids=lambda e: e.slug)
def test_with_the_solution_pasted_in_it_gets_full_marks(
    exercise: Exercise, fresh: tuple[KernelManager, BlockingKernelClient]
) -> None:
    last = executed(solved(exercise), fresh)[-1]
    text, page = shown(last)
    headline = text.splitlines()[0]
    assert re.search(r"  (\S+) / \1  passed$", headline), text
    assert "pass" in page
    # Progress was shown, and is gone.
    progress = [output for output in last.outputs if output.output_type == "display_data"]
    assert [output.data["text/plain"] for output in progress] == [""]


def test_interrupt_ends_a_check_with_one_line(
    fresh: tuple[KernelManager, BlockingKernelClient],
) -> None:
    manager, client = fresh
    endless = """
from headcheck import check
def linear(x, weight, bias):
    while True:
        pass
check(linear)
"""
    told: list[str] = []

    def hear(message: dict[str, Any]) -> None:
        if message["msg_type"] == "display_data":
            manager.interrupt_kernel()
        if message["msg_type"] == "error":
            told.extend(message["content"]["traceback"])

    reply = client.execute_interactive(endless, timeout=60, output_hook=hear)
    assert reply["content"]["status"] == "error"
    assert told == ["headcheck: stopped before the first check of linear was done."]
