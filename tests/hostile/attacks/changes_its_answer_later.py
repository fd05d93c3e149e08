"""Returns a tensor, and goes on writing on it from a thread."""

import threading


def scribble(out):
    for i in range(2000):
        out.fill_(i)


def answer(x, out):
    threading.Thread(target=scribble, args=(out.detach(),), daemon=True).start()
    return out
