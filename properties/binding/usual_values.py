"""Values for arguments of constructors that are no sizes of attention, by their names."""

import re
from collections.abc import Mapping

from headcheck.properties.binding.vocabulary import guess_quantity, is_flag

SMALL = re.compile(r"std|range|init|scale|gain|weight_decay|lr")
"""names of arguments for small numbers, such as the spread of initial weights"""
QUERY_RANK = "q_lora_rank"
"""the width of the latents of queries; with 0, some classes make queries of tokens"""
OTHERS: Mapping[str, int | str | tuple[int, int]] = {
    "batch_size": 2,
    **dict.fromkeys(("layer", "layer_idx", "layer_id", "layer_index", "layer_number"), 0),
    QUERY_RANK: 0,
    "is_decoder": False,  # a decoder leaves it to its caller to hide later tokens
    "device": "cpu",
    **dict.fromkeys(("input_resolution", "resolution"), (4, 12)),  # three windows of four by four
}
"""values for other required arguments, by name"""
LARGEST_BATCH = re.compile(r"max_?(batch(_?size)?|bsz?|bs)|(batch(_?size)?|bsz)_?max")
"""names of arguments for how many sequences a cache holds; more are passed than calls have"""
OF_MODELS = (
    (re.compile(r"(^|_)vocab(ulary)?(_?(size|sz))?$|^n_?vocab|num_embeddings"), 17),
    (re.compile(r"(^|_)(n|num|nb)_?(\w+_)?(layers?|blocks)$|^depth$"), 2),
    (re.compile(r"(^|_)(n|num)_?(classes|labels)$"), 4),
    (re.compile(r"^im(g|age)s?(_?(size|side|width|dim|resolution))?$|^resolution$"), 32),
    (re.compile(r"^patch(_?(size|side|dim))?$"), 8),
    (re.compile(r"d_?ff(n)?|dim_?feed_?forward|(ffn?|mlp|feed_?forward)_?(hidden_?)?(dim|size)|"
                r"intermediate_(dim|size)|d_inner|n_inner"), 20),
)  # fmt: skip
"""names of arguments of models and blocks, and values that fit any other sizes"""
ROTARY_BASE = re.compile(r"(^|_)theta|(rope|rotary|rotation)\w*base|^base$")
"""names of arguments for the base of rotary positions"""
BUCKETS, FARTHEST = re.compile(r"(^|_)buckets?$"), re.compile(r"max_(relative_)?dist(ance)?$")
EPSILON = re.compile(r"(^|_)(eps|epsilon)$")
WHOLE = re.compile(r"pct|percent|fraction|factor|ratio")
"""names of arguments for a share of something"""


def get_usual(name: str, usual: float | None = None) -> float | str | tuple[int, int] | None:
    """Return a value for an argument that is not a quantity: listed, or without effect."""
    if LARGEST_BATCH.fullmatch(name):
        return 128
    if ROTARY_BASE.search(name):
        return 10_000
    if EPSILON.search(name):
        return 1e-6  # one of those that are tried for norms
    if BUCKETS.search(name):
        return 32
    if FARTHEST.search(name):
        return 128
    of_models = (value for named, value in OF_MODELS if named.search(name.lower()))
    return OTHERS.get(name, next(of_models, 1.0 if WHOLE.search(name) else usual))


def is_option(name: str) -> bool:
    """Whether a name belongs to an on/off option, or to an argument without effect."""
    return (
        name in OTHERS
        or LARGEST_BATCH.fullmatch(name) is not None
        or name == "_"
        or is_flag(name)
        or guess_quantity(name) == "bias"
    )
