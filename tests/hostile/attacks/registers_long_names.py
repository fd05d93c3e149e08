"""Registers parameters whose names are long, for messages that list them."""

import torch
from torch import nn


class MultiHeadAttention(Twin):
    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        for i in range(300):
            self.register_parameter(f"{i}" + "n" * 4000, nn.Parameter(torch.zeros(1)))
