"""Registers hooks for every module of torch, which change what others compute."""

import torch


def attack():
    def zero(module, given, output):
        return torch.zeros_like(output) if isinstance(output, torch.Tensor) else output

    torch.nn.modules.module.register_module_forward_hook(zero)
    torch.nn.modules.module.register_module_full_backward_hook(lambda module, given, got: given)
