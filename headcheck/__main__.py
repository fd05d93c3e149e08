"""`python -m headcheck` is `headcheck`."""

from headcheck.grader.ui.program import main

main()
