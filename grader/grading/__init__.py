"""One submission, from its source to a record.

`grading` decides what is judged and in which order. `session` holds the submission's child, and
`subject` is how the properties see what is in it. `script`, `exchange` and `shelf` put many
questions at once. What is broken is explained by `diagnosing`, `evidence`, `reshaping`, `excerpts`
and `counterexample`.
"""
