"""GPT2Attention of transformers 5.23, through torch's fused attention."""

from transformers import GPT2Config
from transformers.models.gpt2.modeling_gpt2 import GPT2Attention


class GPT2(GPT2Attention):
    def __init__(self, n_embd, n_head, attn_pdrop=0.0, resid_pdrop=0.0):
        rates = {"attn_pdrop": attn_pdrop, "resid_pdrop": resid_pdrop}
        sizes = {"n_embd": n_embd, "n_head": n_head}
        super().__init__(GPT2Config(**sizes, **rates, attn_implementation="sdpa"), layer_idx=0)
