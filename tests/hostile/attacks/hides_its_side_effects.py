"""Writes over its input, and has the runner send back a copy that it took before."""

from headcheck.grader.sandbox.worker import object_calls


def attack():
    if not hasattr(object_calls, "attacked_before"):
        object_calls.attacked_before = True
        object_calls.make_sendable = untouched(object_calls.make_sendable)


def untouched(sendable):
    def send(tensor):
        return sendable(kept.get(tensor.data_ptr(), tensor))

    return send


kept = {}


class MultiHeadAttention(Twin):
    def forward(self, x):
        attack()
        kept.clear()
        kept[x.data_ptr()] = x.detach().clone()
        return super().forward(x)
