"""What words in names suggest: quantities of constructors, roles of inputs."""

import pytest

from headcheck.properties.signatures.vocabulary import guess_quantity, guess_role, is_flag

QUANTITIES = {
    "config": "config cfg args hparams",
    "dropout": "dropout p drop_rate attn_pdrop attention_dropout resid_drop dropout_prob rate",
    "bias": "bias qkv_bias use_bias add_bias_kv",
    "heads": "h heads n_head num_heads nhead nheads numHeads num_attention_heads number_of_heads "
    "n_q",
    "context_length": "context_length block_size seq_len max_len n_ctx max_seq_len T window_size",
    "head_dim": "head_dim d_k d_v head_size dim_head key_dim attention_head_size dim_per_head "
    "query_pre_attn_scalar",
    "d_out": "d_out dim_out out_features output_dim inner_dim out_channels",
    "d_in": "d_in in_features input_dim dim_in",
    "d_context": "kv_dim context_dim memory_dim d_context dim_kv",
    "width": "d_model embed_dim n_embd dim hidden_size emb_dim embedDim model_dim E C channels",
}
ROLES = {
    "mask": "mask attn_mask attention_mask key_padding_mask pad_mask src_mask valid_lens tril "
    "score_bias attn_bias",
    "query": "q query queries tgt query_states",
    "key": "k key keys key_input",
    "value": "v value values values_input",
    "context": "y context memory encoder_outputs enc_out kv x_kv cond src",
    "x": "x inputs tokens hidden_states embeddings seq h data blorp position_bias "
    "past_key_value past_key_values layer_past kv_cache",
}


def pairs(table: dict[str, str]) -> list[tuple[str, str]]:
    return [(name, meaning) for meaning, names in table.items() for name in names.split()]


@pytest.mark.parametrize(("name", "quantity"), pairs(QUANTITIES))
def test_a_name_of_an_argument_suggests_a_quantity(name: str, quantity: str) -> None:
    assert guess_quantity(name) == quantity


@pytest.mark.parametrize("name", ["pieces", "blorp", "activation", "layer_idx", "eps"])
def test_a_name_that_says_nothing_suggests_nothing(name: str) -> None:
    assert guess_quantity(name) is None


@pytest.mark.parametrize(("name", "role"), pairs(ROLES))
def test_a_name_of_an_input_suggests_a_role(name: str, role: str) -> None:
    assert guess_role(name) == role


def test_names_in_any_style_are_read() -> None:
    assert guess_quantity("numHeads") == guess_quantity("_num_heads") == "heads"
    assert guess_role("attnMask") == guess_role("attn_mask_") == "mask"


@pytest.mark.parametrize(
    ("name", "flag"),
    [("is_causal", True), ("batch_first", True), ("use_flash", True), ("dim", False)],
)
def test_options_that_are_on_or_off_are_known_by_their_names(name: str, flag: bool) -> None:
    assert is_flag(name) is flag
