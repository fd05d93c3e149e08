"""CausalSelfAttention of litgpt 0.5 with limited scores, as in Gemma 2."""

from litgpt_attention import LitGPT


class LimitedLitGPT(LitGPT):
    def __init__(self, width, heads, groups, softcap):
        super().__init__(width, heads, groups, attention_logit_softcapping=softcap)
