"""The judge judged: every known answer against every property of its exercise, and a page on it."""
