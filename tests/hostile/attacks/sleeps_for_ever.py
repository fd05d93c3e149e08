"""Never answers and uses no processor time."""

import time


def attack():
    time.sleep(3600)
