"""`python -m grader` is `headcheck`."""

from grader.ui.cli import main

main()
