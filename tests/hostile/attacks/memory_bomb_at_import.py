"""Asks for 3 GiB while it is loaded."""


class MultiHeadAttention(Twin):
    kept = bytearray(3 << 30)
