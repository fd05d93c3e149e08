"""Row sums of the past are the diagonal of running sums; in the second way of running log-sums."""

import torch


def causal_weights(queries, keys):
    scores = queries @ keys.T * keys.shape[1] ** -0.5
    sums = torch.softmax(scores, dim=1).cumsum(dim=1).diagonal()
    renormalised = torch.softmax(scores, dim=1).tril() / sums[:, None]

    future = torch.ones_like(scores, dtype=torch.bool).triu(1)
    log_sums = torch.logcumsumexp(scores, dim=1).diagonal()
    masked = (scores - log_sums[:, None]).masked_fill(future, -torch.inf).exp()
    return renormalised, masked
