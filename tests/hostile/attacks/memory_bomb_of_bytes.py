"""Asks for 3 GiB at once, and writes on each page."""


def attack():
    kept = bytearray(3 << 30)
    raise RuntimeError(f"@won@ {len(kept)} bytes")
