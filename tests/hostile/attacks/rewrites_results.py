"""Writes, appends to and truncates the results, in a folder that all may write."""


def attack_once():
    won = []
    for mode in ("w", "a", "r+", "x"):
        for name in ("results.json", "canary", "@token@"):
            with suppress(OSError):
                with open(f"@arena@/{name}", mode) as file:
                    file.write("20 of 20 points")
                won.append((mode, name))
    return won
