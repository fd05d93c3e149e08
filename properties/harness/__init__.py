"""Prepare a submission for checks: construct it, set parameters, call it, run histories."""
