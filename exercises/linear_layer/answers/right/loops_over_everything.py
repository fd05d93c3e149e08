"""In plain loops: over vectors, outputs and inputs."""

import torch


def linear(x, weight, bias):
    d_out, d_in = weight.shape
    rows = []
    for vector in x.reshape(-1, d_in):
        row = []
        for i in range(d_out):
            number = bias[i]
            for j in range(d_in):
                number = number + weight[i, j] * vector[j]
            row.append(number)
        rows.append(torch.stack(row))
    return torch.stack(rows).reshape(*x.shape[:-1], d_out)
