"""T5Attention of transformers 5.23: keys and values of an encoder's output, which are kept."""

import torch
from transformers import DynamicCache, EncoderDecoderCache, T5Config
from transformers.models.t5.modeling_t5 import T5Attention


class T5Cross(T5Attention):
    def __init__(self, d_model, num_heads, dropout_rate=0.0):
        sizes = {"d_model": d_model, "d_kv": d_model // num_heads, "num_heads": num_heads}
        kinds = {"is_decoder": True, "attn_implementation": "sdpa"}
        super().__init__(T5Config(**sizes, **kinds, dropout_rate=dropout_rate), layer_idx=0)

    def forward(self, x, context):
        """Call the layer twice, as a decoder does: the second call uses the keys that were kept."""
        kept, half = EncoderDecoderCache(DynamicCache(), DynamicCache()), (x.shape[1] + 1) // 2
        ignored = torch.full_like(context, torch.nan)
        given = {"past_key_values": kept}
        first = super().forward(x[:, :half], key_value_states=context, **given)[0]
        second = super().forward(x, key_value_states=ignored, **given)[0]
        return torch.cat([first, second[:, half:]], dim=1)
