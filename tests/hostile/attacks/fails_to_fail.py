"""Raises an exception whose text, class and traceback raise in turn."""


class Unspeakable(Exception):
    def __str__(self):
        raise self

    __repr__ = __str__

    @property
    def __traceback__(self):
        raise self

    @property
    def __class__(self):
        raise KeyError

    name = property(__str__)


def attack():
    raise Unspeakable
