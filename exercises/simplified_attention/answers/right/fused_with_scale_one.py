"""torch's own attention, with the scale set to one."""

import torch.nn.functional as F


def simplified_attention(x):
    batch = x.unsqueeze(0)
    return F.scaled_dot_product_attention(batch, batch, batch, scale=1.0).squeeze(0)
