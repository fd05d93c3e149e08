"""Converts everything to float32, so float64 goes in and float32 comes out."""

import torch


def linear(x, weight, bias):
    x = x.to(torch.float32)
    return x @ weight.to(torch.float32).T + bias.to(torch.float32)
