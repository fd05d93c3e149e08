"""Check a submission with few messages, without changing any verdict.

Theory
------
A property is run in three ways, and its check function cannot tell them apart:

    recorded   on the equation itself, before any submission is seen (`recording`): its queries
               are written down with the exact answers and their tolerances
    replayed   on answers that the submission has given already (`replay`)
    live       on the submission (`properties.harness`)

A property whose check takes a `LiveContext` can run only live.

`plan` lays the recorded queries of an exercise out as a few long messages (`message`). `check`
sends them to a submission and concludes. If every answer is exact, the property holds. Otherwise
the property is replayed, and if replay cannot decide, the property is checked live. Only a live
check can fail a submission. Plans are compiled once and kept on disk (`disk_cache`).
"""
