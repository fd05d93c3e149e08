"""Starts 3000 threads that wait."""

import threading


def attack_once():
    forever = threading.Event()
    threading.stack_size(1 << 16)
    for _ in range(3000):
        try:
            threading.Thread(target=forever.wait, daemon=True).start()
        except (RuntimeError, MemoryError):
            break
    return [f"{threading.active_count()} threads"] if threading.active_count() > 1000 else []
