"""One submission, from its source to a record: find, infer, check, explain, record.

`grade` shows that order at one glance. `infer` chooses what to grade, and as which exercise;
`grader.batch` checks it; `explain`, `evidence`, `reshaping`, `excerpts` and `counterexample` say
what failed and why. `worker_pool` grades in several processes; `precompile` prepares batch plans.
"""
