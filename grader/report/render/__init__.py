"""Renderers of a report: `text` for terminals, `html` for browsers, `github` for workflows.

All are pure functions of the report.

Everything that a submission can influence is sanitised on its way into a `view`, which decides what
is displayed. The renderers display nothing else.
"""
