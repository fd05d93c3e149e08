"""The softmax runs down the columns, over the queries. (named: softmax_over_queries)"""

import torch
import torch.nn.functional as F


def scaled_dot_product_attention(x, W_query, W_key, W_value):
    Q = torch.matmul(x, W_query)
    K = torch.matmul(x, W_key)
    V = torch.matmul(x, W_value)
    attention = F.softmax(Q @ K.T / K.shape[1] ** 0.5, dim=0)
    return attention @ V
