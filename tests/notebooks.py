"""Notebooks of code cells."""

import nbformat

from headcheck.grader.reading.cells import SubmissionSource, read_source


def write_notebook(*cells: str) -> bytes:
    v4 = nbformat.v4
    written = v4.new_notebook(cells=[v4.new_code_cell(cell) for cell in cells])
    return str(nbformat.writes(written)).encode()


def read_notebook(*cells: str) -> SubmissionSource:
    return read_source(write_notebook(*cells), "ipynb")
