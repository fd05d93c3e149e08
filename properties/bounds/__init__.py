"""Error bounds: what a correct implementation may differ by, derived and never fitted."""
