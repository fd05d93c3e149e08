"""How an answer fails: wrong values, crashes, and what a library does not support."""
