"""All steps from a file to a report: reading, isolation, verdicts, points and rendering."""


class UserError(Exception):
    """An error whose message is for the user of a command, and no fault of headcheck."""
