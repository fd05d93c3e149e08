"""What an installation without any extra does: `tox run -e plain`."""
