"""What is said of a contract whose parts do not go together, or have no meaning."""

from pathlib import Path

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.exercises.contract_file import load_exercise
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.families.linear import it_never_holds_a_matrix_of_tokens
from tests.exercises.contract_folders import CONTRACT, read_complaint, write_folder


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('title = "Fused attention"\n', "", "line 1: there is no `title`: add it"),
        ('name = "FusedAttention"\n', "", "line 1: there is no `name`: add it"),
        ("title =", "titel =", "line 2: there is no key `titel`; did you mean 'title'?"),
        ('"class"', '"clas"', "line 4: `entry` knows no 'clas'; did you mean"),
        ('"class"', "7", "line 4: `entry` must be a text in quotes, not 7"),
        ('"causal"', '"casual"', "line 6: `capabilities` knows no 'casual'; did you mean"),
        ('    "causal",\n', "", "line 5: list `causal` if later"),
        ('"batch"', '"batch", "full"', "line 7: `causal` hides later tokens, which `full` shows"),
        ('"batch"', '"mask"', 'line 7: `mask` says that there is such a thing: write call = ["x",'),
        ('"batch"', '"dropout"', "line 7: `dropout` says that there is such a thing: an argument"),
        ('"FusedAttention"', '"Fused Attention"', "line 3: 'Fused Attention' is not a valid name"),
        ('"FusedAttention"', "3", "line 3: `name` must be a text in quotes, not 3"),
        ('d_in = "d_in"', 'd_in = "d_inn"', "line 12: there is no quantity 'd_inn'"),
        ('d_in = "d_in"', "d_in = 3", "line 12: `arguments.d_in.quantity` must be a text"),
        ("default = 2", "defualt = 2", "line 14: there is no key `defualt`; did"),
        ("default = false, ", "", "line 15: an optional argument needs its `default`"),
        ("optional = true", 'optional = "yes"', "line 15: `arguments.qkv_bias.optional` must be"),
        ('["W_q", "W_k"', '["W_q", "W_p"', "line 18: there is no parameter 'W_p'; did"),
        ('["W_q", "W_k"', '["W_q", "b_k"', "line 18: a parameter holds weights, or biases"),
        ('["W_q", "W_k", ', '["W_q", ', "line 17: no parameter holds W_k: say where it is"),
        ('["b_q", "b_k", "b_v"]', "[]", "line 19: a parameter holds weights, or biases"),
        ('"W_o", tr', '"sinks", tr', "line 20: sinks are one number for each head"),
        ('"batch"', '"gated"', "line 7: `gated` says that there is such a thing: a parameter"),
        ('"W_o", tr', '"lambdas", tr', "line 20: lambdas are one number for each head"),
        ('{ holds = "W_o", transposed = true }', '"lambdas"', "line 17: queries and keys are"),
        ('"batch"', '"sinks"', "line 7: `sinks` says that there is such a thing: a parameter"),
        ('"W_o", tr', '"W_v", tr', "line 20: W_v is stored in 'qkv.weight' already"),
        ('"qkv.bias"', "qkv.bias", 'line 19: a path with dots is written in quotes: "qkv.bias"'),
        ('"qkv.bias"', '"qkv bias"', "line 19: 'qkv bias' is not a path of attributes such as"),
        ('"qkv.bias"', '"{heads}.bias"', "line 19: '{heads}.bias' is not a path of attributes"),
        ("[parameters]", "[parametres]", "line 17: there is no key `parametres`; did you mean"),
        ("values = 40", "valeus = 40", "line 23: there is no key `valeus`; did you mean 'values'?"),
        ("values = 40", 'values = "40"', "line 23: `points.values` must be a number, not '40'"),
        ("idle_s", "idle", "line 26: there is no key `idle`; did you mean 'idle_s'?"),
        ("values = 40", "values = -1", "line 23: must be from 0 to 1000000, not -1"),
        ("values = 40", "values = 1e308", "line 23: must be from 0 to 1000000, not 1e+308"),
        ("values = 40", "values = inf", "line 23: must be a finite number, not inf"),
        ("idle_s = 2.5", "idle_s = 0", "line 26: must be more than 0, not 0"),
        ("idle_s = 2.5", "threads = 2.5", "line 26: `limits.threads` must be a whole number"),
        ("[arguments]", "[[arguments]]", "line 11: `arguments` must be a table, not a list"),
        ("[points]", "[sizes]\nd_inn = 2\n[points]", "line 23: there is no size 'd_inn'"),
        ('entry = "class"', 'call = ["y"]', "line 4: a call cannot pass 'y'; there are context,"),
        ('entry = "class"', "call = []", "line 4: a call passes something"),
        ('entry = "class"', 'call = "x"', "line 4: `call` must be a list in square brackets"),
        (
            'entry = "class"',
            'positions = "rotary"',
            "line 4: rotations need pairs: let `size_rules` make head_dim a multiple of 2",
        ),
        (
            'entry = "class"',
            'positions = "rotary"\nrotary_share = 0.25\nsize_rules = "head_dim=even"',
            "line 4: rotations need pairs: let `size_rules` make head_dim a multiple of 8",
        ),
        ('entry = "class"', 'positions = "rotray"', "line 4: `positions` knows no 'rotray'; did"),
        (
            'entry = "class"',
            'positions = "rotary"\nrotary_share = 0.0',
            "line 5: must be from 0 to 1, not 0",
        ),
        (
            'entry = "class"',
            'positions = "rotary"\nrotary_base = 1.0',
            "line 5: must be more than 1, not 1",
        ),
        (
            'entry = "class"',
            "rotary_base = 500000.0",
            'line 4: belongs to rotary positions: write positions = "rotary" or',
        ),
        (
            'entry = "class"',
            "norm_epsilon = 1e-5",
            'line 4: belongs to norms of queries and keys: write norm = "rms" or "layer", or leave',
        ),
        (
            'entry = "class"',
            'norm_over = "projection"',
            'line 4: belongs to norms of queries and keys: write norm = "rms" or "layer", or leave',
        ),
        (
            'entry = "class"',
            'norm = "rms"\nnorm_over = "heads"',
            "line 5: `norm_over` knows no 'heads'; did you mean 'head'?",
        ),
        (
            "[parameters]",
            '[parameters]\nq_norm = "gain_q"',
            'line 17: gains and shifts belong to norms: write norm = "rms" or "layer"',
        ),
        (
            'entry = "class"',
            "lambda_init = 0.5",
            "line 4: belongs to differential attention: say where lambdas are stored, or leave it",
        ),
        (
            'entry = "class"',
            'size_rules = "window<=4"',
            "line 4: no argument takes window, so a rule for it has no effect: leave it out",
        ),
        (
            "[points]",
            '[call_form.cache]\nargument = "a cache"\n[points]',
            "line 23: 'a cache' is no name",
        ),
        (
            "[points]",
            "[call_form]\njoins_queries = true\n[points]",
            "line 23: queries join a context that nothing hides: write call",
        ),
        ("[points]", "[call_form.cache]\nplace = 0\n[points]", "line 23: is counted from 0, whi"),
        ('"heads", default = 2', '"block", default = 2', "line 11: only a function of query, key"),
        ('entry = "class"', 'returns = "output_and_logsumexp"', "line 4: only a function of q"),
        ('d_out = "d_out"', 'd_out = "d_out"\nrank = "d_latent"', "line 11: latents need W_down"),
        ('entry = "class"', "cases = 0", "line 4: must be at least 1, not 0"),
        ('entry = "class"', "cases = true", "line 4: `cases` must be a whole number, not True"),
        ('entry = "class"', "size_rules = 1", "line 4: `size_rules` must be a text in quotes"),
        ('entry = "class"', 'entry = "function"', "line 11: these are of a constructor; what a"),
        ('entry = "class"', "entry = class", "line 4: is not TOML: Invalid value"),
        ("idle_s = 2.5", "idle_s = [", "line 26: is not TOML: "),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line(old: str, new: str, said: str, tmp_path: Path) -> None:
    assert CONTRACT.count(old) >= 1
    assert read_complaint(tmp_path / "fused", CONTRACT.replace(old, new, 1)).startswith(said)


C = Capability
OURS = {
    "causal_alignment": [
        (
            ', "value"]',
            "]",
            "line 7: a function of a query must take query, key and value, perhaps a mask",
        ),
        ("square = true", "", "line 1: queries, keys and values have no layers: write true"),
    ],
    "latent_attention": [
        ('"W_key_rope.weight" = "W_kr"\n', "", "no parameter holds W_kr: say where it is"),
        ('d_latent = "d_latent"\n', "", "latents need W_down in [parameters], and an argument"),
        ('rope_dim = "rope_dim"\n', "", "what rotates beside heads needs W_qr and W_kr in"),
        ('"W_down.weight" = "W_down"\n', "", "latents need W_down in [parameters], and"),
        ('positions = "rotary"\n', "", "with latents all of W_qr and W_kr is rotated: write"),
        ('"rotary"\n', '"rotary"\nrotary_share = 0.5\n', "with latents all of W_qr and W_kr"),
        (
            '"rotary"\n',
            '"rotary"\nnorm = "rms"\n',
            "norms and lambdas do not say what they do with what",
        ),
        ('= "W_kr"', '= { holds = "W_kr", packing = "stacked" }', "W_down, W_qr and W_kr are each"),
        ('"W_down.weight"', '"{head}.weight"', "W_down, W_qr and W_kr are each one matrix for"),
    ],
    "gpt_block": [
        ('"linear2.weight" = "W_2"\n', "", "no parameter holds W_2: say where it is"),
        ('"norm1.bias" = "shift_in"\n', "", "no parameter holds shift_in: say where it is"),
        ('token_norm = "layer"\n', "", "a block norms its tokens: write token_norm"),
        ('activation = "gelu"\n', "", "a feed-forward has an activation: write activation"),
        ('"gelu"\n', '"relu"\n', "`activation` knows no 'relu'; did you mean 'gelu'?"),
        ('"gelu"\n', '"gelu"\nhidden_factor = 0\n', "must be more than 0, not 0"),
        ("epsilon = 1e-5", "epsilon = 0.0", "must be more than 0, not 0"),
        ("square = true\n", "", "attention is added to its tokens: write square = true"),
        ('size_rules = "d_out>=3"\n', "", "a norm of fewer than three numbers leaves only signs"),
        ('"d_out>=3"', '"d_out>=2"', "a norm of fewer than three numbers leaves only signs"),
        ('= "heads"', '= "heads"\np = "dropout"', "only plain attention so far: leave out dropout"),
        (
            '= "heads"',
            '= "heads"\nn = "kv_heads"',
            "only plain attention so far: leave out kv_heads",
        ),
        (
            "square = true\n",
            'square = true\nnorm = "rms"\n',
            "only plain attention so far: leave out norm",
        ),
        (
            "[parameters]\n",
            '[parameters]\ng = "W_gate"\n',
            "only plain attention so far: leave out W_gate",
        ),
        ("[parameters]\n", "[call_form.cache]\n[parameters]\n", "so far: leave out cache"),
        ("square = true\n", 'square = true\ncall = ["x", "mask"]\n', "so far: leave out mask"),
    ],
    "online_softmax": [
        ('"full"', '"causal"', "line 8: a log-sum-exp covers all keys: list `full`"),
        ('= "block"', '= "heads"', "line 15: these are of a constructor; what a function takes"),
        (
            "entry =",
            'norm = "rms"\nentry =',
            "norms are those of projected queries and keys: say where W_q is",
        ),
    ],
    "flash_attention": [
        ('"full"', '"causal"', "line 16: only a `full` function of query, key and value takes wh"),
        ('block_size = "block"', "", "line 8: `recomputed` needs a `cross` function of query"),
        ('"cross", ', "", "line 8: `recomputed` needs a `cross` function of query"),
    ],
    "weight_transfer": [
        ('entry = "transfer"', 'entry = "builder"', 'line 10: entry = "transfer" and the tables'),
        ('["v2", "v1"]', '["v2"]', "line 7: a transfer is called with two modules"),
        (
            "[transfer.target",
            "[transfer.other",
            "line 26: there is no key `other`; there are source,",
        ),
        ('name = "SelfAttention_v1"\n', "", "line 26: there is no `name`: add it"),
        (
            '"W_value.bias" = "b_v"',
            '"W_value.bias" = "b_w"',
            "line 24: there is no parameter 'b_w'",
        ),
    ],
    "linear_layer": [
        (
            'call = ["x", "weight", "bias"]',
            'call = ["x"]',
            "line 10: a function gets its weights as arguments: list 'weight' in `call`, too",
        ),
    ],
    "multi_head_attention": [
        (
            "[arguments]",
            'token_norm = "layer"\n[arguments]',
            "belongs to a block: say where W_1 and W_2",
        ),
        (
            "[arguments]",
            'activation = "gelu"\n[arguments]',
            "belongs to a block: say where W_1 and W_2",
        ),
    ],
}
"""changes of our own contracts, and what is said of them"""


@pytest.mark.parametrize(
    ("slug", "old", "new", "said"),
    [(slug, *change) for slug, changes in OURS.items() for change in changes],
)
def test_a_mistake_in_one_of_ours_is_told(
    slug: str, old: str, new: str, said: str, tmp_path: Path
) -> None:
    text = BY_SLUG[slug].source
    assert old in text
    told = read_complaint(tmp_path / "a", text.replace(old, new, 1))
    assert told.startswith(said) if said.startswith("line ") else said in told


def test_what_reads_latents_is_stored_apart_from_what_reads_tokens(tmp_path: Path) -> None:
    text = BY_SLUG["latent_attention"].source.replace('"W_up_key.weight" = "W_k"\n', "")
    joined = text.replace('= "W_q"\n', '= ["W_q", "W_k"]\n')
    told = read_complaint(tmp_path / "a", joined)
    assert "made of latents, the others of tokens: store them apart" in told


def test_a_function_over_blocks_may_give_the_output_alone(tmp_path: Path) -> None:
    text = BY_SLUG["online_softmax"].source.replace('_and_logsumexp"', '"')
    contract = load_exercise(write_folder(tmp_path / "a", text)).contract
    assert contract.has(C.BLOCKED) and not contract.has(C.LOGSUMEXP)


def test_norms_over_a_projection_need_several_heads(tmp_path: Path) -> None:
    text = CONTRACT.replace('entry = "class"', 'norm = "rms"\nnorm_over = "projection"')
    assert load_exercise(write_folder(tmp_path / "several", text)).contract.norm
    single = text.replace('num_heads = { quantity = "heads", default = 2 }\n', "")
    said = read_complaint(tmp_path / "fused", single)
    assert said == "line 5: a single head is the whole projection: leave it out"


YARN = 'kind = "yarn"\nfactor = 4\noriginal_length = 4096'
LLAMA3 = """kind = "llama3"
factor = 8
original_length = 8192
low_freq_factor = 1
high_freq_factor = 4"""


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("factor = 2", "there is no `kind`: add it"),
        ('kind = "linear"', "there is no `factor`: add it"),
        ('kind = "liner"\nfactor = 2', "`rotary_scaling.kind` knows no 'liner'; did you mean"),
        ('kind = "linear"\nfactor = 1', "must be more than 1, not 1"),
        (
            'kind = "linear"\nfactor = 2\noriginal_length = 4096',
            "has no effect on linear scaling: leave it out",
        ),
        (
            'kind = "ntk"\nfactor = 2',
            "the exponent d/(d - 2) needs more than one pair: let `size_rules` make head_dim large",
        ),
        ('kind = "yarn"\nfactor = 4', "yarn scaling needs `original_length`: add it"),
        (
            f"{YARN}\nlow_freq_factor = 1",
            "has no effect on yarn scaling: leave it out",
        ),
        (f"{YARN}\nattention_factor = 0.0", "must be more than 0, not 0"),
        (f"{YARN}\nbeta_slow = 0", "must be more than 0, not 0"),
        (f"{YARN}\nbeta_fast = 1", "must be more than beta_slow, which is 1, not 1"),
        (YARN.replace("4096", "6"), "must be more than 6.283, that is 2π · beta_slow: otherwise"),
        (
            YARN.replace("4096", "4000000"),
            "must be less than 2.011e+06, that is 2π · beta_fast · rotary_base: otherwise all",
        ),
        (LLAMA3.replace("low_freq_factor = 1\n", ""), "llama3 scaling needs `low_freq_factor`"),
        (
            LLAMA3.replace("factor = 4", "factor = 1"),
            "must be more than low_freq_factor, which is 1, not 1",
        ),
        (f"{LLAMA3}\ntruncate = true", "has no effect on llama3 scaling: leave it out"),
        (
            f"{LLAMA3}\nattention_factor = 1.2",
            "has no effect on llama3 scaling: leave it out",
        ),
    ],
)
def test_a_scaling_has_the_numbers_of_its_kind(written: str, said: str, tmp_path: Path) -> None:
    rotary = 'entry = "class"\npositions = "rotary"\nsize_rules = "head_dim=even"'
    text = CONTRACT.replace('entry = "class"', rotary) + f"\n[rotary_scaling]\n{written}\n"
    complaint = read_complaint(tmp_path / "fused", text)
    assert complaint.partition(": ")[2].startswith(said)


def test_scaling_without_rotary_positions_is_refused(tmp_path: Path) -> None:
    text = CONTRACT.replace("[limits]", f"[rotary_scaling]\n{YARN}\n[limits]")
    said = read_complaint(tmp_path / "fused", text)
    assert said.startswith("line 25: belongs to rotary positions: write positions =")


def test_only_what_is_causal_continues_a_sequence(tmp_path: Path) -> None:
    full = CONTRACT.replace('"causal"', '"full"').replace("[points]", "[call_form.cache]\n[points]")
    told = read_complaint(tmp_path / "fused", full)
    assert told == "line 22: only a causal module continues a sequence"


def test_a_class_needs_parameters(tmp_path: Path) -> None:
    text = 'title = "A"\nname = "A"\ncapabilities = ["full"]\n'
    said = read_complaint(tmp_path / "a", text)
    assert said == "line 1: there is no [parameters]: say where W_q, W_k and W_v are stored"


def test_a_block_may_have_a_fixed_width_or_a_rule_for_its_heads(tmp_path: Path) -> None:
    text, rule = BY_SLUG["gpt_block"].source, 'size_rules = "d_out>=3"\n'
    for number, allowed in enumerate(('size_rules = "head_dim>=3"\n', 'size_rules = "heads>=3"\n')):
        load_exercise(write_folder(tmp_path / str(number), text.replace(rule, allowed)))


def test_only_features_promise_linear_memory(tmp_path: Path) -> None:
    text = BY_SLUG["linear_attention"].source
    without = text.replace('feature_map = "elu"\n', "")
    said = "line 7: `linear_memory` needs a `feature_map`"
    assert said in read_complaint(tmp_path / "a", without)
    promised = load_exercise(write_folder(tmp_path / "b", text)).properties
    parallel = text.replace(', "linear_memory"', "")
    asked = load_exercise(write_folder(tmp_path / "c", parallel)).properties
    assert {*promised} - {*asked} == {it_never_holds_a_matrix_of_tokens}


def test_without_the_option_nothing_is_aligned(tmp_path: Path) -> None:
    text = BY_SLUG["flash_attention"].source
    without = "\n".join(line for line in text.splitlines() if not line.startswith("causal ="))
    contract = load_exercise(write_folder(tmp_path / "a", without)).contract
    assert contract.has(C.RECOMPUTED)
    assert not contract.has(C.CAUSAL_OPTION) and not contract.has(C.ALIGNED)


def test_a_function_of_a_query_needs_no_call_form(tmp_path: Path) -> None:
    text = BY_SLUG["causal_alignment"].source.partition("[call_form]")[0]
    contract = load_exercise(write_folder(tmp_path / "a", text)).contract
    assert contract.call_form.inputs == ("query", "key", "value")
    assert contract.has(C.ROLES, C.ALIGNED) and not contract.has(C.HEADS)
    assert not contract.has(C.STATELESS)
