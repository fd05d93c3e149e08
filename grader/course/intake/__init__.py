"""Read a download of a course system: attribute its files to students and unpack its archives."""
