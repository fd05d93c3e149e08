"""Names parameters that are not there, endlessly, and hides those that are."""

import torch
from torch import nn


class MultiHeadAttention(Twin):
    def named_parameters(self, *given, **named):
        while True:
            yield "W_query.weight", nn.Parameter(torch.zeros(1))

    def parameters(self, *given):
        return (parameter for _, parameter in self.named_parameters())

    named_buffers = named_parameters
    modules = parameters
