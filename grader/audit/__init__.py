"""The audit checks every known answer against every property of its exercise, and reports."""
