"""CausalSelfAttention of litgpt 0.5 with a window and limited scores, as Gemma 2 has them."""

import importlib.util
from pathlib import Path

SPEC = importlib.util.spec_from_file_location(
    "litgpt_attention", Path(__file__).with_name("litgpt_attention.py")
)
PLAIN = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(PLAIN)


class LitGPTGemma(PLAIN.LitGPT):
    def __init__(self, width, heads, groups, window, softcap):
        kinds = {"sliding_window_size": window, "sliding_window_indices": [1], "n_layer": 1}
        super().__init__(width, heads, groups, attention_logit_softcapping=softcap, **kinds)
