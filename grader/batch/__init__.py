"""Checking a submission with few messages, without changing a verdict.

Theory
------
A property runs in three ways, and its check function cannot tell which:

    recorded   on the equation itself, before any submission is seen (`recording`): its queries
               are written down with the exact answers and their tolerances
    replayed   on answers that the submission has given already (`replay`)
    live       on the submission (`properties.harness`)

One whose check function takes a `LiveContext` can run in the last way only.

`plan` lays the recorded queries of an exercise out as a few long messages (`message`). `check`
sends them to a submission and concludes: where every answer is exact, the property holds; where
answers are not, the property is replayed; and what replay cannot decide is checked live. Only a
live check fails a submission. Plans are compiled once and kept on disk (`disk_cache`).
"""
