"""WhisperAttention of transformers 5.23, in a decoder: keys have no bias; its cache."""

import copy

from transformers import DynamicCache, EncoderDecoderCache, WhisperConfig
from transformers.masking_utils import create_causal_mask
from transformers.models.whisper.modeling_whisper import WhisperAttention


class Whisper(WhisperAttention):
    def __init__(self, width, heads, dropout=0.0):
        sizes = {"d_model": width, "decoder_attention_heads": heads}
        config = WhisperConfig(**sizes, attn_implementation="sdpa")
        kinds = {"is_decoder": True, "is_causal": True, "layer_idx": 0}
        super().__init__(width, heads, dropout, **kinds, config=config)

    def forward(self, x, cache=None):
        whole = EncoderDecoderCache(DynamicCache(), DynamicCache())
        whole = whole if cache is None else copy.deepcopy(cache)
        mask = create_causal_mask(self.config, x, attention_mask=None, past_key_values=whole)
        return super().forward(x, None, whole, mask)[0], whole
