"""Turn one submission's source into a record: find, infer, check, explain, record.

`grade` shows this order at a glance. `infer` chooses which definition to grade, and as which
exercise; `grader.batch` checks it; `explain`, `evidence`, `reshaping`, `excerpts` and
`counterexample` show what failed and why. `worker_pool` grades in several processes; `precompile`
prepares batch plans.
"""
