"""Prepare a submission for checks: construct it, set parameters, call it, give it a history."""
