"""Contract files: what they say, what follows from it, and what is said of one that is wrong."""

import pickle
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import get_type_hints

import pytest

from headcheck.exercises import ALL, BY_SLUG, Exercise, contract_checks
from headcheck.exercises.contract_file import LIMITS, load_exercise, names_folder
from headcheck.exercises.exercise import BadContract
from headcheck.exercises.toml_lines import Place, find_line, parse
from headcheck.grader.report.course_file import BadCourseFile
from headcheck.grader.sandbox.limits import Limits
from headcheck.properties.contracts.contract import Argument, Capability, Contract, Entry, Returns
from headcheck.properties.contracts.parameter_mapping import ParameterMapping
from headcheck.properties.families.linear import it_never_holds_a_matrix_of_tokens
from headcheck.properties.parts import WEIGHTS
from headcheck.properties.terms.case import Case
from headcheck.properties.terms.group import PropertyGroup
from headcheck.reference import Parameters

CONTRACT = """\
# Attention with a fused projection.
title = "Fused attention"
name = "FusedAttention"
entry = "class"
capabilities = [
    "causal",
    "batch",
    "stable",
]

[arguments]
d_in = "d_in"
d_out = "d_out"
num_heads = { quantity = "heads", default = 2 }
qkv_bias = { quantity = "bias", default = false, optional = true }

[parameters]
"qkv.weight" = ["W_q", "W_k", "W_v"]
"qkv.bias" = ["b_q", "b_k", "b_v"]
"out.weight" = { holds = "W_o", transposed = true }

[points]
values = 40

[limits]
idle_s = 2.5
"""

TOKENS = {"ATTENTION", "TOKENS", "STABLE", "WIDTHS"}
MODULE = {*TOKENS, "MODULE", "PROJECTED", "INITIALISED"}
CAUSAL = {*MODULE, "CAUSAL", "CONTEXT", "BATCH"}
HEADS = {*CAUSAL, "HEADS", "OUTPUT_PROJECTION", "OUTPUT_BIAS"}
OPTION = {"BIAS", "BIAS_OPTION"}
PLAIN = {
    "OWN_KEYS",
    "ANY_DISTANCE",
    "ANY_LENGTH",
    "PLACELESS",
    "UNBIASED",
    "DOT_PRODUCT",
    "UNNORMED",
}
PLAIN |= {"NORMALISED", "UNGATED", "UNCOMPRESSED", "ONE_MAP", "CONSTANT_SUM", "SOFTMAX", "BARE"}
PLAIN |= {"ANY_KEYS", "PROPORTIONAL"}
MODERN = {*HEADS, *OPTION, *PLAIN, "DROPOUT", "DIVISIBLE"} - {"CONTEXT"}
CAPABILITIES = {
    "linear_layer": {"BATCH", "BIAS", "HEADS", "PROJECTED", "TOKENS", "WIDTHS"},
    "simplified_attention": {*TOKENS, "FULL", "STATELESS"},
    "scaled_dot_product": {*TOKENS, "FULL", "STATELESS", "PROJECTED"},
    "self_attention_v1": {*MODULE, "FULL", "UNIFORM"},
    "self_attention_v2": {*MODULE, *OPTION, "FULL"},
    "weight_transfer": {*MODULE, "FULL", "TRANSFER"} - {"INITIALISED"},
    "causal_weights": {"ATTENTION", "CAUSAL", "PROJECTED", "WEIGHTS"},
    "causal_attention": {*CAUSAL, *OPTION, "DROPOUT"},
    "multi_head_wrapper": {*CAUSAL, *OPTION, "DROPOUT", "HEADS"},
    "two_dimensional_output": {*CAUSAL, "HEADS"} - {"WIDTHS"},
    "multi_head_attention": {*HEADS, *OPTION, "DROPOUT", "DIVISIBLE"},
    "cross_attention": {*HEADS, *OPTION, "DROPOUT", "DIVISIBLE", "FULL", "CROSS"}
    - {"CAUSAL", "CONTEXT"},
    "causal_alignment": {*TOKENS, "CAUSAL", "BATCH", "HEADS", "CROSS", "ALIGNED", "ROLES"},
    "online_softmax": {*TOKENS, "FULL", "BATCH", "HEADS", "CROSS", "ROLES", "BLOCKED", "LOGSUMEXP"},
    "flash_attention": {*TOKENS, "FULL", "BATCH", "HEADS", "CROSS", "ROLES", "BLOCKED"}
    | {"RECOMPUTED", "CAUSAL_OPTION", "ALIGNED"},
    "padding_mask": {*HEADS, *OPTION, "DROPOUT", "DIVISIBLE", "FULL", "PADDING", "TAKES_MASK"}
    - {"CAUSAL", "CONTEXT"},
    "sliding_window": {*MODERN, "WINDOW"} - {"ANY_DISTANCE"},
    "grouped_query": {*MODERN, "GROUPED"} - {"OWN_KEYS"},
    "rope": {*MODERN, "POSITIONS"} - {"PLACELESS", "DOT_PRODUCT"},
    "scaled_rope": {*MODERN, "POSITIONS"} - {"PLACELESS", "DOT_PRODUCT"},
    "alibi": {*MODERN, "POSITIONS"} - {"PLACELESS", "UNBIASED"},
    "softcap": {*MODERN, "SOFTCAP"} - {"DOT_PRODUCT"},
    "attention_sink": {*MODERN, "SINKS"} - {"NORMALISED", "CONSTANT_SUM"},
    "gated_attention": {*MODERN, "GATED"} - {"UNGATED"},
    "differential_attention": {*MODERN, "DIFFERENTIAL"} - {"DROPOUT", "NORMALISED", "ONE_MAP"},
    "kv_cache": {*MODERN, "CACHE", "HANDED_CACHE"} - PLAIN,
    "linear_attention": {*MODERN, "CACHE", "HANDED_CACHE", "FEATURES", "LINEAR_MEMORY"}
    - {"DROPOUT", "STABLE", "SOFTMAX", "DOT_PRODUCT"},
    "llama_attention": {*MODERN, "CACHE", "HANDED_CACHE", "GROUPED", "POSITIONS"}
    - {"BIAS", "BIAS_OPTION", "DROPOUT", "OUTPUT_BIAS"}
    - {"OWN_KEYS", "PLACELESS", "DOT_PRODUCT"},
    "latent_attention": {*MODERN, "CACHE", "HANDED_CACHE", "LATENT", "BESIDE", "POSITIONS"}
    - {"BIAS", "BIAS_OPTION", "DROPOUT", "OUTPUT_BIAS"}
    - {"PLACELESS", "DOT_PRODUCT", "UNCOMPRESSED"},
    "gpt2_size": HEADS - {"WIDTHS"},
    "gpt_block": {*MODERN, "BLOCK", "CENTRED_NORMS"} - {"DROPOUT", "BARE"},
    "causal_self_attention": {*HEADS, "BIAS", "CONFIG"},
    "looped_causal_self_attention": {*HEADS, "BIAS"},
    "fused_causal_self_attention": {*HEADS, "BIAS", "FUSED"},
    "masked_multi_head": {*HEADS, "BIAS", "FULL", "MASK", "TAKES_MASK", "WEIGHTS"}
    - {"CAUSAL", "CONTEXT"},
}
"""what is asked in each exercise follows from these"""
OF_THEIR_OWN = (
    "sliding_window", "grouped_query", "rope", "scaled_rope", "alibi", "softcap", "attention_sink",
    "gated_attention", "differential_attention", "linear_attention", "llama_attention",
    "latent_attention", "gpt_block",
)  # fmt: skip
PLAIN_OF_OTHERS = {slug: set[str]() for slug in OF_THEIR_OWN}
"""what these have of the plain steps stands above; all others have all of them"""


def write_folder(folder: Path, text: str = CONTRACT) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "contract.toml").write_text(text, encoding="utf-8")
    (folder / "statement.md").write_text("# Fused\n", encoding="utf-8")
    (folder / "hints.md").write_text("1. Think.\n", encoding="utf-8")
    return folder


def read_complaint(folder: Path, text: str) -> str:
    """What is said of a contract file, in one line that names the file."""
    with pytest.raises(BadContract) as caught:
        load_exercise(write_folder(folder, text))
    said = str(caught.value)
    assert "\n" not in said
    assert said.startswith(f"{folder / 'contract.toml'}, line ")
    return said.removeprefix(f"{folder / 'contract.toml'}, ")


# -------------------------------------------------------------------------- what it says


def test_every_key_becomes_a_field(tmp_path: Path) -> None:
    exercise = load_exercise(write_folder(tmp_path / "fused-2"))
    assert (exercise.slug, exercise.title) == ("fused-2", "Fused attention")
    assert exercise.points == {PropertyGroup.VALUES: 40}
    assert exercise.limits == {"idle_s": 2.5}
    contract = exercise.contract
    assert contract.entry is Entry.CLASS
    assert contract.arguments == (
        Argument("d_in", "d_in"),
        Argument("d_out", "d_out"),
        Argument("num_heads", "heads", default=2),
        Argument("qkv_bias", "bias", default=False, optional=True),
    )
    assert contract.mappings == (
        ParameterMapping("qkv.weight", ("W_q", "W_k", "W_v")),
        ParameterMapping("qkv.bias", ("b_q", "b_k", "b_v")),
        ParameterMapping("out.weight", ("W_o",), transposed=True),
    )
    assert [
        each.name
        for each in (C.OUTPUT_PROJECTION, C.BIAS, C.BIAS_OPTION, C.HEADS)
        if contract.has(each)
    ] == ["OUTPUT_PROJECTION", "BIAS", "BIAS_OPTION", "HEADS"]
    assert not contract.has(C.OUTPUT_BIAS) and not contract.has(C.CONTEXT)


C = Capability


def test_ours_say_what_they_always_said() -> None:
    found = {each.slug: {c.name for c in each.contract.capabilities} for each in ALL}
    assert all("STATED" in names for names in found.values())
    assert [slug for slug in found if "ANY_MASK" in found[slug]] == ["masked_multi_head"]
    expected = {
        slug: names | PLAIN_OF_OTHERS.get(slug, PLAIN) for slug, names in CAPABILITIES.items()
    }
    assert {
        slug: names - {"STATED", "HALF", "STRIDED", "ANY_MASK", "STEADY"}
        for slug, names in found.items()
    } == expected
    masked = BY_SLUG["masked_multi_head"].contract
    assert masked == Contract(
        name="MultiHeadAttention",
        arguments=(
            Argument("d_model", "d_out", default=512),
            Argument("num_heads", "heads", default=8),
        ),
        mappings=tuple(
            ParameterMapping(f"W_{letter}.{kind}", (f"{kind[0].replace('w', 'W')}_{letter}",))
            for letter in "qkvo"
            for kind in ("weight", "bias")
        ),
        call=("x", "mask"),
        returns=Returns.OUTPUT_AND_WEIGHTS,
        square=True,
        capabilities=masked.capabilities,
    )
    sizes = BY_SLUG["gpt2_size"].contract.sizes
    assert sizes == {"d_in": 768, "heads": 12, "head_dim": 64, "context_length": 1024}
    assert BY_SLUG["simplified_attention"].contract.scale == 1.0


def test_a_transfer_has_the_contracts_of_both_modules() -> None:
    contract = BY_SLUG["weight_transfer"].contract
    assert contract.transfer is not None
    source, target = contract.transfer
    version_2 = BY_SLUG["self_attention_v2"].contract
    assert target == BY_SLUG["self_attention_v1"].contract
    assert source == replace(version_2, arguments=version_2.arguments[:2])
    assert contract.mappings == source.mappings


def test_names_are_those_of_the_records_they_stand_for() -> None:
    assert set(WEIGHTS) == {each.name for each in fields(Parameters)}
    types = get_type_hints(Limits) | {"memory": int}  # no limit is none to write
    assert types == LIMITS
    assert set(contract_checks.SIZES) <= {each.name for each in fields(Case)}
    others = {"config", "constant"}
    assert all(hasattr(Case(), q) for q in contract_checks.QUANTITIES if q not in others)


def test_listing_exercises_imports_no_torch() -> None:
    program = "import sys, exercises; exercises.ALL; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_reading_runs_nothing(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "fused")
    (folder / "solution.py").write_text("raise SystemExit('it was run')\n", encoding="utf-8")
    (folder / "__init__.py").write_text("raise SystemExit('it was run')\n", encoding="utf-8")
    assert load_exercise(folder).solution.startswith("raise")


# -------------------------------------------------------------------------- one object


def test_a_process_has_one_object_until_the_contract_changes(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "fused")
    first = load_exercise(folder)
    assert load_exercise(folder / "contract.toml") is first
    assert pickle.loads(pickle.dumps(first)) is first
    write_folder(folder, CONTRACT.replace("Fused attention", "Another title"))
    again = load_exercise(folder)
    assert (first.title, again.title) == ("Fused attention", "Another title")
    assert pickle.loads(pickle.dumps(first)) is first, "it is sent as it was read"


def test_ours_are_sent_as_the_one_object() -> None:
    assert all(pickle.loads(pickle.dumps(each)) is each for each in ALL)


def test_an_exercise_arrives_where_its_folder_is_not(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "fused")
    sent = pickle.dumps(load_exercise(folder))
    for path in folder.iterdir():
        path.unlink()
    program = "import pickle, sys; print(pickle.load(sys.stdin.buffer).contract.name)"
    done = subprocess.run(
        [sys.executable, "-c", program], input=sent, capture_output=True, check=True
    )
    assert done.stdout.strip() == b"FusedAttention"


@pytest.mark.parametrize(
    ("name", "is_folder"),
    [("gqa", False), ("here", True), ("./gqa", True), ("gqa/", True), ("a/gqa", True), (".", True)],
)
def test_a_folder_is_told_from_a_slug(
    name: str, is_folder: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_folder(tmp_path / "here")
    monkeypatch.chdir(tmp_path)
    assert names_folder(name) is is_folder


# -------------------------------------------------------------------------- what is wrong


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
        (
            'entry = "class"',
            'call = ["y"]',
            "line 4: a call cannot pass 'y'; there are context, key, mask",
        ),
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
        ("[points]", "[call_form.cache]\nplace = 0\n[points]", "line 23: is counted from 0, whi"),
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


def test_norms_over_a_projection_need_several_heads(tmp_path: Path) -> None:
    text = CONTRACT.replace('entry = "class"', 'norm = "rms"\nnorm_over = "projection"')
    assert load_exercise(write_folder(tmp_path / "several", text)).contract.norm
    single = text.replace('num_heads = { quantity = "heads", default = 2 }\n', "")
    said = read_complaint(tmp_path / "fused", single)
    assert said == "line 5: a single head is the whole projection: leave it out"


def test_norms_are_those_of_layers(tmp_path: Path) -> None:
    text = BY_SLUG["online_softmax"].source.replace("entry =", 'norm = "rms"\nentry =', 1)
    said = read_complaint(tmp_path / "roles", text)
    assert "norms are those of projected queries and keys: say where W_q is" in said


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


def test_a_function_is_given_its_parameters(tmp_path: Path) -> None:
    text = BY_SLUG["linear_layer"].source.replace('call = ["x", "weight", "bias"]', 'call = ["x"]')
    said = read_complaint(tmp_path / "a", text)
    assert said == "line 10: a function gets its weights as arguments: list 'weight' in `call`, too"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            ', "value"]',
            "]",
            "line 7: a function of a query must take query, key and value, perhaps a mask",
        ),
        ("square = true", "", "line 1: queries, keys and values have no layers: write true"),
    ],
)
def test_a_function_of_a_query_takes_all_as_they_are(
    old: str, new: str, said: str, tmp_path: Path
) -> None:
    text = BY_SLUG["causal_alignment"].source
    assert old in text
    assert read_complaint(tmp_path / "a", text.replace(old, new)).startswith(said)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
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
)
def test_latents_come_with_what_belongs_to_them(
    old: str, new: str, said: str, tmp_path: Path
) -> None:
    text = BY_SLUG["latent_attention"].source
    assert text.count(old) == 1
    assert said in read_complaint(tmp_path / "a", text.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
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
        (
            '= "heads"',
            '= "heads"\np = "dropout"',
            "only plain attention so far: leave out dropout",
        ),
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
)
def test_a_block_has_all_its_parts_and_nothing_else(
    old: str, new: str, said: str, tmp_path: Path
) -> None:
    text = BY_SLUG["gpt_block"].source
    assert text.count(old) == 1
    assert said in read_complaint(tmp_path / "a", text.replace(old, new))


@pytest.mark.parametrize("line", ['token_norm = "layer"\n', 'activation = "gelu"\n'])
def test_what_belongs_to_a_block_is_refused_without_one(line: str, tmp_path: Path) -> None:
    text = BY_SLUG["multi_head_attention"].source.replace("[arguments]", f"{line}[arguments]", 1)
    assert "belongs to a block: say where W_1 and W_2" in read_complaint(tmp_path / "a", text)


def test_a_block_may_have_a_fixed_width_or_a_rule_for_its_heads(tmp_path: Path) -> None:
    text, rule = BY_SLUG["gpt_block"].source, 'size_rules = "d_out>=3"\n'
    for number, allowed in enumerate(('size_rules = "head_dim>=3"\n', 'size_rules = "heads>=3"\n')):
        load_exercise(write_folder(tmp_path / str(number), text.replace(rule, allowed)))


def test_what_reads_latents_is_stored_apart_from_what_reads_tokens(tmp_path: Path) -> None:
    text = BY_SLUG["latent_attention"].source.replace('"W_up_key.weight" = "W_k"\n', "")
    joined = text.replace('= "W_q"\n', '= ["W_q", "W_k"]\n')
    told = read_complaint(tmp_path / "a", joined)
    assert "made of latents, the others of tokens: store them apart" in told


def test_no_argument_is_of_latents_where_there_are_none(tmp_path: Path) -> None:
    text = CONTRACT.replace('d_out = "d_out"\n', 'd_out = "d_out"\nrank = "d_latent"\n')
    assert "latents need W_down in [parameters]" in read_complaint(tmp_path / "a", text)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"full"', '"causal"', "line 8: a log-sum-exp covers all keys: list `full`"),
        ('= "block"', '= "heads"', "line 15: these are of a constructor; what a function takes"),
        ('_and_logsumexp"', '"', None),
    ],
)
def test_what_else_a_function_of_a_query_takes_and_gives(
    old: str, new: str, said: str | None, tmp_path: Path
) -> None:
    text = BY_SLUG["online_softmax"].source
    assert old in text
    if said is not None:
        assert read_complaint(tmp_path / "a", text.replace(old, new)).startswith(said)
        return
    contract = load_exercise(write_folder(tmp_path / "a", text.replace(old, new))).contract
    assert contract.has(C.BLOCKED) and not contract.has(C.LOGSUMEXP)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"heads", default = 2', '"block", default = 2', "line 11: only a function of query, key"),
        (
            'entry = "class"',
            'returns = "output_and_logsumexp"',
            "line 4: only a function of query, key and value returns a log-sum-exp",
        ),
    ],
)
def test_no_class_goes_over_blocks(old: str, new: str, said: str, tmp_path: Path) -> None:
    assert read_complaint(tmp_path / "a", CONTRACT.replace(old, new)).startswith(said)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"full"', '"causal"', "line 16: only a `full` function of query, key and value takes wh"),
        ('block_size = "block"', "", "line 8: `recomputed` needs a `cross` function of query"),
        ('"cross", ', "", "line 8: `recomputed` needs a `cross` function of query"),
    ],
)
def test_a_backward_in_tiles_is_that_of_a_function_of_a_query(
    old: str, new: str, said: str, tmp_path: Path
) -> None:
    text = BY_SLUG["flash_attention"].source
    assert old in text
    assert read_complaint(tmp_path / "a", text.replace(old, new)).startswith(said)


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


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
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
)
def test_a_mistake_in_a_transfer_is_told_with_its_line(
    old: str, new: str, said: str, tmp_path: Path
) -> None:
    text = BY_SLUG["weight_transfer"].source
    assert old in text
    complaint = read_complaint(tmp_path / "a", text.replace(old, new))
    assert complaint.startswith(said)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("contract.toml", "there is no such file: an exercise is a folder with a contract"),
        ("statement.md", "there is no such file: write what students read"),
        ("hints.md", "there is no such file: write a numbered list of hints"),
    ],
)
def test_a_missing_file_is_named(name: str, said: str, tmp_path: Path) -> None:
    (write_folder(tmp_path / "fused") / name).unlink()
    with pytest.raises(BadContract) as caught:
        load_exercise(tmp_path / "fused")
    assert str(caught.value) == f"{tmp_path / 'fused' / name}, line 1: {said}"


def test_a_folder_for_students_has_no_solution(tmp_path: Path) -> None:
    exercise = load_exercise(write_folder(tmp_path / "fused"))
    with pytest.raises(BadContract, match=r"solution\.py, line 1: there is no such file"):
        assert exercise.solution


def test_a_folder_must_have_the_name_of_an_exercise(tmp_path: Path) -> None:
    said = read_complaint(tmp_path / "my exercise", CONTRACT)
    assert said.startswith("line 1: 'my exercise' cannot name an exercise: ")


def test_another_encoding_is_told(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "fused")
    (folder / "contract.toml").write_bytes(CONTRACT.replace("Fused a", "Fusé a").encode("latin-1"))
    with pytest.raises(BadContract, match="line 2: is not UTF-8"):
        load_exercise(folder)


def test_lines_are_those_of_the_innermost_key() -> None:
    text = '[a]\n"b.c" = 1\n\n[a.d]\ne = { f = 2 }\n'
    assert find_line(text, ("a", "b.c")) == 2
    assert find_line(text, ("a", "d", "e", "f")) == 5
    assert find_line(text, ("a", "d")) == 4
    assert find_line(text, ("a", "z")) == 1
    assert find_line("", ("a",)) == 1


def test_one_of_ours_that_is_wrong_is_told_by_the_command(
    tmp_path: Path,
) -> None:
    """Whoever adds an exercise reads one line, whatever is imported first."""
    program = (
        "import sys\nfrom headcheck import exercises\n"
        "exercises.__file__ = sys.argv.pop()\n"
        "from headcheck.grader.ui.cli import main\n"
        "main()\n"
    )
    write_folder(tmp_path / "linear_layer", CONTRACT.replace("batch", "bacth"))
    command = [sys.executable, "-c", program, "list", str(tmp_path / "__init__.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"headcheck: {tmp_path / 'linear_layer' / 'contract.toml'}, line 7"
    )
    assert done.stderr.count("\n") == 1


def test_an_exercise_knows_whether_it_is_ours(tmp_path: Path) -> None:
    outside: Exercise = load_exercise(write_folder(tmp_path / "fused"))
    assert not outside.is_ours
    assert all(each.is_ours for each in ALL)


@pytest.mark.parametrize(
    "number",
    [
        "1" * 5000,
        "-" + "1_0" * 3000,
        "0x" + "f" * 5000,
        "0b" + "1" * 70,
        "[1, [0o7" + "7" * 9000 + "]]",
    ],
)
@pytest.mark.parametrize("error", [BadContract, BadCourseFile])
def test_number_that_toml_does_not_have_is_told_with_its_line(
    number: str, error: type[Exception]
) -> None:
    place = Place(Path("a.toml"), f"title = 'x'\n[points]\nvalues = {number}\n", error=error)
    with pytest.raises(error, match=r"a\.toml, line 3: .*64 bits"):
        parse(place)


def test_message_about_a_contract_controls_nothing_and_is_short() -> None:
    text = str(
        BadContract("a.toml, line 1: \x1b]0;no\x07\n::error::\u202e##[x" + "y" * 30_000 + "end")
    )
    assert text.isprintable() and "\\x1b]0;no\\x07\\n" in text and "##[" not in text
    assert len(text) < 1100 and text.endswith("end")
    again = pickle.loads(pickle.dumps(BadContract("a.toml: 'ü\\x1b'")))
    assert str(again) == "a.toml: 'ü\\x1b'"
