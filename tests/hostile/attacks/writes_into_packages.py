"""Writes into torch, headcheck and site-packages, so that the next run executes it."""

import os

import torch


def attack_once():
    won = []
    folders = [os.path.dirname(module.__file__) for module in (torch, os)]
    folders += [
        "@project@/headcheck/grader",
        "@project@/headcheck/exercises/multi_head_attention",
        "@project@",
        os.path.dirname(folders[0]),
    ]
    for folder in folders:
        for name in ("@token@.py", "@token@.pth", "__pycache__/@token@.pyc"):
            with suppress(OSError):
                with open(f"{folder}/{name}", "w") as file:
                    file.write("")
                won.append(name)
                os.unlink(f"{folder}/{name}")
    return won
