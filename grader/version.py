"""The version of this program. Imports nothing heavy, for `headcheck --version`."""

from importlib.metadata import PackageNotFoundError, version


def get_version() -> str:
    """Return the version of the installed distribution."""
    try:
        return version("headcheck")
    except PackageNotFoundError:
        return "unknown (not installed)"
