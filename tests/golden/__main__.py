"""Write the golden files anew: python -m tests.golden [SLUG[/ANSWER] ...]; all in ten minutes.

`--reworded` judges only those whose claim or mistake has other words now, and writes hints anew.
Read the difference as a student who knows only the statement before you commit it.
"""

import sys

from headcheck.exercises import BY_SLUG
from tests.golden.bank import write, write_reworded

again = write_reworded() if sys.argv[1:] == ["--reworded"] else write(sys.argv[1:] or BY_SLUG)
for written in again:
    print(written, flush=True)  # noqa: T201  # a program: it answers by printing
