"""Write the golden files anew: python -m tests.golden [SLUG[/ANSWER] ...]; all in ten minutes.

Read the difference as a student who knows only the statement before you commit it.
"""

import sys

from exercises import BY_SLUG
from tests.golden.bank import write

for written in write(sys.argv[1:] or BY_SLUG):
    print(written, flush=True)  # noqa: T201  # a program: it answers by printing
