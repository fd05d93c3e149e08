"""Raises an exception of its own that is no Exception, from a text that never ends."""


class Endless(BaseException):
    def __str__(self):
        while True:
            pass


def attack():
    raise Endless
