"""The words in which contracts are written: sizes, options, forms of calls, capabilities."""
