"""All steps from a file to a report: reading, isolation, verdicts, points and rendering."""
