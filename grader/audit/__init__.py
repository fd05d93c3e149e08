"""The audit: every known answer against every property of its exercise, and reports on it."""
