"""Keeps tensors of 64 MiB, 3 GiB in all."""

import torch


def attack():
    kept = [torch.ones(1 << 24) for _ in range(48)]
    raise RuntimeError(f"@won@ {len(kept)} tensors")
