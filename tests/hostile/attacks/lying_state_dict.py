"""Gives a state dict of other tensors than those it computes with, and ignores the one it is given."""

import torch


class MultiHeadAttention(Twin):
    def state_dict(self, *given, **named):
        return {name: torch.zeros(1) for name in super().state_dict(*given, **named)}

    def load_state_dict(self, *given, **named):
        return self
