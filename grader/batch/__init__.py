"""Checking a submission with few messages, without changing a verdict.

Theory
------
A property runs in three ways, and its check function cannot tell which:

    recorded   on the equation itself, before any submission is seen (`recording`): what it asks
               is written down, and how far an answer may be off
    replayed   on answers that the submission has given already (`replay`)
    live       on the submission (`properties.harness`)

`plan` lays the recorded queries of an exercise out as a few long messages (`message`), sends them
to a submission, and concludes: where every answer is exact, the property holds; where answers are
not, the property is replayed; and what replay cannot decide is checked live. Only a live check
fails a submission. Plans are compiled once and kept on disk (`disk_cache`).
"""
