"""Has a name, a cell and a line that are not what they say, in code compiled under another name."""

FORGED = compile("raise ValueError('somebody else failed')", "/etc/passwd", "exec")


def attack():
    exec(FORGED, {"__name__": "headcheck.grader.report.points"})
