"""Guess what the names of arguments and inputs mean, and values for arguments that are no sizes.

These guesses are usually right, so they are tried first; behaviour then confirms or refutes them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from headcheck.properties.signatures.signature import SignatureParameter
from headcheck.properties.terms.call_form import Given, Taken

QUANTITIES: Sequence[tuple[str, re.Pattern[str]]] = tuple(
    (quantity, re.compile(pattern))
    for quantity, pattern in (
        ("config", r"config|cfg|conf|args|hparams|hps?|configuration|settings|opts?|params"),
        (
            "softcap",
            r"(\w+_)?(soft_?cap(ping)?|(logits?|att(entio)?n|scores?)_cap|cap_logits?)(_value)?|cap",
        ),
        ("temperature", r"temp(erature)?|tau"),
        ("scale", r"((softmax|attn|attention|qk|score)_)?(scale|scaling)(_factor)?"),
        ("dropout", r".*drop.*|p|.*_p|p_.*|.*_?rate|.*prob(ability)?"),
        ("bias", r".*bias.*"),
        (
            "kv_heads",
            r"(n|num|number|no)?_?(of_)?(kv|key_?value|shared)_?heads?(_(num|count|number))?|n_?kv|num_?kv|"
            r"(n|num|number)_?(of_)?(query_|kv_|head_)?groups?|kv_groups?|heads?_kv|groups",
        ),
        (
            "d_latent",
            r"(kv_?)?(lora_?)?rank|((kv|d|dim)_?)?latent(_?(dim|size|width|rank))?|d_?c(_?kv)?|"
            r"(kv_?)?(compress(ed|ion)?|down)_?(dim|size|rank)|kv_rank",
        ),
        (
            "rope_dim",
            r"(qk_?)?rope_?(head_?)?(dim|size)|d_?(h_?)?r(ope)?|rotary_?head_?dim|dim_rope",
        ),
        (
            "d_context",
            r"(context|ctx|memory|cond|encoder|enc|cross|kv|source|src|y|text|prompt|audio|media)"
            r"_?(dim|size|width|features)|"
            r"[kv]dim|(d_?|dim_)(context|memory|cond|encoder|enc|cross|source|src)|dim_kv",
        ),
        (
            "heads",
            r"h|n?_?heads?|nheads?|n_?h|num_?heads?|(num|n|no|number)_(of_)?(\w+_)?heads?|"
            r"heads?_(num|count|number|n)|num_attention_heads|head_count|q(uery)?_?heads?|heads?_q|"
            r"n_?q",
        ),
        (
            "context_length",
            r"(max_?)?(context|ctx|block|seq|sequence|input|target)_?(len|length|size"
            r"|window)|n_ctx|n_positions|max_?(len|length|tokens|positions?|t|seq)|"
            r"max_position_embeddings|seq_?len|t|context|ctx|((sliding|local|attention|attn)_)?(window|win)(_size)?|ws?|"
            r"max_(seq|sequence|context|sentence)_?(len|length)|(num|n)_(tokens|patches|nodes|places)|seq",
        ),
        (
            "head_dim",
            r"((qk_?)?nope_?|v_?|qk_?)?head_?(dim|size|width|features)|d_?nope|d_?(k|q|v|head|key|query|value|keys|values)|"
            r"dim_?(k|q|v|head|per_head|key|query|value)|d_?kv?|per_head(_dim)?|"
            r"(size|dim|width)_per_head|attention_head_size|head_embed_dim|"
            r"(key|query|value|qk|kq|kv|qkv)_?(dim|size)|k_dim|q_dim|v_dim|attn_dim|"
            r"attention_dim|query_pre_attn_scalar",
        ),
        (
            "d_out",
            r"d_?out|out(put)?_?(dim|features|channels|size|d)|dim_out|inner_dim|n_?out|"
            r"all_head_size|proj_dim",
        ),
        ("d_in", r"d_?in|in(put)?_?(dim|features|channels|size|d)|dim_in|query_dim|n_?in"),
        (
            "width",
            r"d|e|c|d_?model|d_?emb(ed)?|n_?emb(e?d)?|(model|embed(ding)?s?|emb|hidden|token|feature)"
            r"_?(dim|size|d|width|features|dims|dimension)?|dim|dims|width|channels|size|"
            r"features|n_?state|hid_dim|embedding|emb_?dim|n_?hidden|n_?units|dimension|"
            r"num_(hiddens|features|channels|units)|n_?x|embed|units|d_attn|(attn|attention)_size",
        ),
    )
)
"""quantities with patterns for names, the more specific words first"""

TAKEN = (
    (Taken.BATCH, re.compile(r"b|bs|bsz|n_?seqs?|(.*_)?batch(es)?(_size)?|(max_)?bsz")),
    (Taken.DTYPE, re.compile(r"(.*_)?d?type")),
    (Taken.DEVICE, re.compile(r"(.*_)?device")),
    (Taken.WINDOW, re.compile(r"(\w+_)?window(_\w+)?")),
    (Taken.LAYERS, re.compile(r"(n|num)_?(\w+_)?(layers|blocks)|layers|depth")),
    (
        Taken.LENGTH,
        re.compile(r"n|l|(.*_)?(len(gth)?|tokens|positions|capacity|steps)|max_.*"),
    ),
)
"""what a method that sets up a cache takes, with patterns for names, beside other quantities"""
QUANTITY_TAKEN = {
    "context_length": Taken.LENGTH,
    "heads": Taken.HEADS,
    "kv_heads": Taken.KV_HEADS,
    "head_dim": Taken.HEAD_DIM,
    "width": Taken.WIDTH,
    "d_out": Taken.WIDTH,
}

FLAGS = re.compile(
    r".*(causal|directional|masked|mask|bias|flash|fused|batch_first|first|is_|use_).*"
)
"""names of options that are on or off"""

INPUTS: Sequence[tuple[str, re.Pattern[str]]] = tuple(
    (role, re.compile(pattern))
    for role, pattern in (
        (
            "mask",
            r".*mask.*|m|tril|keep|((attn|attention|scores?|pair|edge|spatial)_)?bias|.*pad(ding)?(_.*)?|valid(_.*)?|allowed"
            r"|adj(acency)?(_?(mat(rix)?|mask))?|(.*_)?(lens|lengths)|(.*_)?(doc|document|seg|segment)s?(_.*)?|cu_?seq.*|boundaries",
        ),
        (
            "query",
            r"(x_?)?q(uer(y|ies)|s)?(_?(input|in|states?|x|seq))?|.*quer(y|ies).*|tgt|target",
        ),
        ("key", r"(x_?)?k(eys?|s)?(_?(input|in|states?|x|seq))?|(?!past|.*cache).*keys?(_.*)?"),
        (
            "value",
            r"(x_?)?v(al(ue)?s?|s)?(_?(input|in|states?|x|seq))?|(?!past|.*cache).*values?(_.*)?",
        ),
        (
            "context",
            r"y|z|.*context.*|.*memory.*|(.*_)?enc(oder)?(_.*)?|kv|x_?kv|x_?2|.*cond.*|.*source.*|src"
            r"|other|cross.*|b",
        ),
        (
            "x",
            r"x|.*x.*|.*input.*|.*hidden.*|.*emb.*|.*tokens?.*|.*seq.*|.*state.*|.*feat.*|a|h|inp|"
            r"data|batch",
        ),
    )
)

POSITION_BIAS = re.compile(r"((rel(ative)?|pos(ition(al)?)?|alibi)_)+bias", re.IGNORECASE)
"""names of numbers that scores get for positions; a class that does not require them has its own"""
G = Given
GIVEN: Sequence[tuple[re.Pattern[str], tuple[Given, ...]]] = tuple(
    (re.compile(pattern), kinds)
    for pattern, kinds in (
        (
            r"position_embeddings?|cos_?sin|(rope|rotary)_(cache|tables?)",
            (G.BOTH_OF_HALVES, G.BOTH),
        ),
        (r".*cos(ines?)?(_.*)?", (G.COSINES_OF_HALVES, G.COSINES, G.COSINES_OF_PAIRS)),
        (r".*sin(es?)?(_.*)?", (G.SINES_OF_HALVES, G.SINES, G.SINES_OF_PAIRS)),
        (r".*freqs?(_.*)?|.*(rope|rotary).*|angles?|theta", (G.COMPLEX, G.COMPLEX_PAIRS, G.ANGLES)),
        (r"start(_?pos(ition)?)?|.*offset|(pos|position)_(start|offset)", (G.ZERO,)),
        (r"(\w+_)?pos(itions?)?(_?ids?)?|token_?(ids|idx)", (G.POSITIONS, G.POSITION_ROW)),
        (
            r"use_.*|return_.*|output_.*|need_.*|is_(training|decod.*|infer.*)|training|verbose",
            (G.FALSE,),
        ),
        (r".*cache.*|.*past.*|.*prev.*|presents?|layer_state", (G.NONE,)),
    )
)
"""what an argument of a call besides tokens and a mask may be given, by its name"""
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


def list_given(name: str) -> tuple[Given, ...]:
    """Return what a required argument with this name may be given; nothing for tokens and masks."""
    plain = _normalise(name)
    return next((kinds for words, kinds in GIVEN if words.fullmatch(plain)), ())


def guess_taken(name: str) -> Taken | None:
    """Return what an argument with this name takes of a method that sets up a cache."""
    plain = _normalise(name)
    named = next((taken for taken, words in TAKEN if words.fullmatch(plain)), None)
    quantity = QUANTITY_TAKEN.get(guess_quantity(name) or "")
    return named or quantity


def guess_quantity(name: str) -> str | None:
    """Return the quantity that the name of a constructor's argument suggests."""
    plain = _normalise(name)
    return next((quantity for quantity, words in QUANTITIES if words.fullmatch(plain)), None)


def guess_role(name: str) -> str:
    """Return the role that the name of an input suggests; tokens if it suggests none."""
    return next(_iter_roles(name), "x")


def suggests_role(name: str) -> bool:
    """Whether the name of an input suggests a role."""
    return any(_iter_roles(name))


def is_known(name: str) -> bool:
    """Whether it is known what a call may be given for an argument of this name."""
    return suggests_role(name) or bool(list_given(name)) or guess_taken(name) is not None


def _iter_roles(name: str) -> Iterator[str]:
    plain = _normalise(name)
    return (role for role, words in INPUTS if words.fullmatch(plain))


def guess_roles(parameters: Sequence[SignatureParameter]) -> list[str]:
    """Return the roles that the names of the inputs suggest; one required input is the tokens."""
    guesses = [
        "mask" if not p.has_default and POSITION_BIAS.fullmatch(p.name) else guess_role(p.name)
        for p in parameters
    ]
    required = [role for p, role in zip(parameters, guesses, strict=True) if not p.has_default]
    if sorted(required) == ["key", "value", "x"]:  # what looks at keys is the query
        return ["query" if role == "x" else role for role in guesses]
    return ["x", *guesses[1:]] if set(required) == {"mask"} else guesses


def takes_three_tokens(parameters: Sequence[SignatureParameter]) -> bool:
    """Whether a call requires three sequences: queries, keys and values, by any names."""
    roles = zip(parameters, guess_roles(parameters), strict=True)
    return sum(role != "mask" and not p.has_default for p, role in roles) == 3


def is_flag(name: str) -> bool:
    """Whether a name sounds like an option that is on or off."""
    return FLAGS.fullmatch(_normalise(name)) is not None


def _normalise(name: str) -> str:
    """Return a name in lower case with underscores: `embedDim` is `embed_dim`."""
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower().strip("_")


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
