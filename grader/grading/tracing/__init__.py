"""The trace of one call, read as a graph of operations, for all that judge by it."""
