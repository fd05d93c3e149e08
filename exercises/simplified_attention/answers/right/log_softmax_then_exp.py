"""log_softmax and exp in place of softmax, products as methods, all in one chain."""


def simplified_attention(x):
    return x.mm(x.t()).log_softmax(dim=-1).exp().mm(x)
