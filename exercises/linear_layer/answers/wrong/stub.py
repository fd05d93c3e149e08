"""Nothing written yet: returns None."""


def linear(x, weight, bias):
    pass
