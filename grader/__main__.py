"""`python -m grader` is `headcheck`."""

from grader.cli import main

main()
