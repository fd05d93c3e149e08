"""Runs code when it is copied or pickled, and gives something else than a copy."""

import os


class Empty:
    def __call__(self, *given):
        return given[0]


class MultiHeadAttention(Twin):
    def __deepcopy__(self, memo):
        return Empty()

    def __reduce_ex__(self, protocol):
        return os.system, ("echo ran >> @arena@/canary",)

    __reduce__ = __getstate__ = __reduce_ex__
