"""How a store of an earlier version becomes one of this version.

A change of `grader.course.store.schema` needs a file in `versions`, named after its number and its
purpose; `tests/grader/course/test_migrations.py` compares the schema with the migrations. Stores
are upgraded when opened.
"""
