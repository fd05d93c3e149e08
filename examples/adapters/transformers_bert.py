"""BertSelfAttention of transformers 5.23, computed eagerly, which returns its weights."""

from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertSelfAttention


class Bert(BertSelfAttention):
    def __init__(self, hidden_size, num_attention_heads, dropout=0.0):
        sizes = {"hidden_size": hidden_size, "num_attention_heads": num_attention_heads}
        rates = {"attention_probs_dropout_prob": dropout}
        super().__init__(BertConfig(**sizes, **rates, attn_implementation="eager"))
