"""How a store of an earlier version becomes one of this version.

A change of `grader.course.store.schema` needs a file in `versions`, named by its number and what it
does; `tests/grader/course/test_migrations.py` compares both. Stores are upgraded when opened.
"""
