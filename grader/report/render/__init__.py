"""A report for people: `text` for a terminal, `html` for a browser, `github` for its workflows.

Pure functions of the report.

Whatever a submission can influence passes `harmless` on its way into `view`, which decides what
is said, and the renderers show nothing else.
"""

from grader.report.render import github, html, text

__all__ = ["github", "html", "text"]
