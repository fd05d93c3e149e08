"""Says what one query does, given its position, and maps that over queries and positions."""

import torch


def causal_weights(queries, keys):
    positions = torch.arange(keys.shape[0], device=keys.device)

    def one(query, own):
        scores = (keys * query).sum(dim=1) / keys.shape[1] ** 0.5
        visible = positions <= own
        past = torch.where(visible, scores.softmax(0), 0)
        hidden = torch.where(visible, scores, -torch.inf)
        return past / past.sum(), hidden.softmax(0)

    return torch.vmap(one)(queries, positions)
