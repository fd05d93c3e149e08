"""Kinds of attention that headcheck knows by name alone: their equations are not judged."""

import re
from collections.abc import Iterable

from headcheck.properties.signatures.signature import Signature

IN_WINDOWS, COSINE = "attention in windows of an image", "cosine attention"
AROUND = "a layer around torch.nn.MultiheadAttention"
LATENT = "latent attention in another form than the one that is judged"
JUDGED_IN_PART = (IN_WINDOWS, COSINE, AROUND, LATENT)
"""the kinds that are judged in one form: with a learned number for each offset, or for scores; if
nothing but the layers of the attention has weights; with queries made of tokens"""
NAMED: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), words)
    for pattern, words in (
        (r"additive|bahdanau", "additive attention"),
        (r"luong", "Luong's attention of a decoder"),
        (r"lin(ear)?_?(self_?|cross_?)?att|performer|linformer", "linear attention"),
        (r"cosine", COSINE),
        (r"diff(erential)?_?(self_?|multi_?head_?)?att", "differential attention"),
        (r"window_?att|swin", IN_WINDOWS),
        (r"deformable", "deformable attention"),
        (r"talking_?heads?", "attention of talking heads"),
        (r"transformer_?xl|^rel(ative)?_?(partial|learnable)", "attention as in Transformer-XL"),
        (r"disentangled", "disentangled attention"),
        (r"longformer|big_?bird|reformer|lsh", "sparse attention"),
    )
)
"""words in the name of a class, and what it is then"""
STORED: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"relative_position_(index|bias_table)|rel_pos_[hw]", IN_WINDOWS),
        (r"logit_scale", COSINE),
        (r"lambda_?[qk]_?[12]", "differential attention"),
        (r"(^|[._])(r_w_bias|r_r_bias|r_net)|pos_bias_[uv]", "attention as in Transformer-XL"),
        (r"(^|[._])null_?(kv|k|v|key|value)", "attention with a learned null key"),
        (r"(^|[._])w?kv_?(a|b|down|up|lora)(\.|_|$)", LATENT),
        (r"\.in_proj_weight$", AROUND),
        (
            r"(^|[._])rel(ative)?_?(pos(ition)?s?_?)?(emb\w*_?)?(k|v|key|value)s?(\.|$)|embeddings_table",
            "attention with a vector for each distance",
        ),
    )
)
"""words in the path of a tensor that only this kind has"""


def name_other_kind(signature: Signature, paths: Iterable[str]) -> str:
    """Return what kind of attention a class is by its names; "" if they do not say it."""
    of_class = (words for named, words in NAMED if named.search(signature.name))
    of_tensors = (words for path in paths for named, words in STORED if named.search(path))
    return next(of_class, "") or next(of_tensors, "")
