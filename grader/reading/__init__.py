"""A submission's source, read and never run: cells, slices, an outline, code patterns, tokens."""
