"""What is said of a contract whose parts do not go together, or have no meaning."""

import tomllib
from pathlib import Path

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.exercises.contract_file import load_exercise
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.families.linear import it_never_holds_a_matrix_of_tokens
from tests.exercises.contract_folders import CONTRACT, read_complaint, write_folder

CHANGES = tomllib.loads(
    Path(__file__).with_name("contract_mistakes.toml").read_text(encoding="utf-8")
)


@pytest.mark.parametrize(("old", "new", "said"), [(*row.values(),) for row in CHANGES["of_tests"]])
def test_a_mistake_is_told_with_its_line(old: str, new: str, said: str, tmp_path: Path) -> None:
    assert CONTRACT.count(old) >= 1
    assert read_complaint(tmp_path / "fused", CONTRACT.replace(old, new, 1)).startswith(said)


@pytest.mark.parametrize(
    ("slug", "old", "new", "said"),
    [(slug, *row.values()) for slug, rows in CHANGES["of_exercises"].items() for row in rows],
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
    assert contract.has(Capability.BLOCKED) and not contract.has(Capability.LOGSUMEXP)


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
    assert contract.has(Capability.RECOMPUTED)
    assert not contract.has(Capability.CAUSAL_OPTION) and not contract.has(Capability.ALIGNED)


def test_a_function_of_a_query_needs_no_call_form(tmp_path: Path) -> None:
    text = BY_SLUG["causal_alignment"].source.partition("[call_form]")[0]
    contract = load_exercise(write_folder(tmp_path / "a", text)).contract
    assert contract.call_form.inputs == ("query", "key", "value")
    assert contract.has(Capability.ROLES, Capability.ALIGNED) and not contract.has(Capability.HEADS)
    assert not contract.has(Capability.STATELESS)
