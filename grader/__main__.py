"""`python -m grader` is `headcheck`."""

from grader.ui.program import main

main()
