"""Static reading of a submission: cells, slices, an outline, code patterns, tokens.

Nothing here runs a submission's code.
"""
