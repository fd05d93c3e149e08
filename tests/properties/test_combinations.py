"""Parts of attention compose: a contract that has several gets the sum of what they declare.

The right module is the equation as a pipeline of steps, an implementation of its own beside the
reference. Every claim that applies to the contract must hold of it, and a known mistake must break
one.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from headcheck.exercises.contract_file import load_contract
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.cases.case_set import generate_case_set
from headcheck.properties.families import select_for_contract
from headcheck.properties.harness.harness import Harness
from headcheck.properties.mistakes.faulty_attention import (
    make_correct_computation,
    make_namespace,
    restate,
)
from headcheck.properties.mistakes.steps import scores
from tests.submissions import accuse

CASES = 6
PARTS = {
    "norm": ('norm = "rms"\nnorm_epsilon = 1e-6\n', "", "gain_q gain_k", "head_dim>=3"),
    "rotary": ('positions = "rotary"\n', "", "", "head_dim%4"),
    "relative": (
        'positions = "relative"\nrelative_buckets = 8\nrelative_farthest = 20\n', "", "W_rel", "",
    ),
    "shared": ("", "kv_heads", "", ""),
    "window": ("", "window", "", ""),
    "softcap": ("", "softcap", "", ""),
    "sinks": ("", "", "sinks", ""),
    "gate": ("", "", "W_gate", ""),
    "lambdas": ("", "", "lambdas", "head_dim%4"),
    "latents": ("", "d_latent rope_dim", "W_down W_qr W_kr", ""),
    "features": ('feature_map = "elu"\n', "", "", ""),
    "narrow": ("", "d_latent", "W_down", ""),
    "slopes": ('positions = "alibi_two_sequences"\n', "", "", ""),
    "own_norms": ('norm = "layer"\nnorm_epsilon = 1e-6\n', "", "*gain_q *gain_k", "head_dim>=3"),
}  # fmt: skip
"""the keys, arguments, parameters and size rules of each part"""
COMBINATIONS = (
    "norm rotary shared gate sinks window",
    "rotary shared sinks window",
    "norm rotary shared softcap",
    "full window rotary shared",
    "full features",
    "features rotary shared",
    "lambdas rotary shared",
    "latents rotary gate sinks window",
    "relative shared gate",
    "full relative softcap sinks",
    "lambdas norm rotary shared",
    "narrow own_norms shared window",
    "narrow lambdas",
    "narrow slopes sinks gate",
    "own_norms rotary shared",
)
OF_OUR_MODULE = {
    "it_can_be_mapped_over_an_axis",  # it draws random numbers, which vmap refuses
}


def write_contract(words: Sequence[str]) -> str:
    parts = [PARTS[word] for word in words if word in PARTS]
    keys, arguments, parameters, rules = (
        [each for part in parts if (each := part[place])] for place in range(4)
    )
    kind, stable = "full" if "full" in words else "causal", "features" not in words
    listed = [kind, "batch", *["stable"] * stable]
    names = " ".join(["d_in d_out heads", *arguments]).split()
    held = " ".join(["W_q W_k W_v W_o", *parameters]).split()
    rule = f'size_rules = "{" ".join(dict.fromkeys(rules))}"\n' if rules else ""
    return (
        f'name = "Combined"\ncapabilities = {listed}\n{rule}{"".join(keys)}[arguments]\n'.replace(
            "'", '"'
        )
        + "".join(f'{name} = "{name}"\n' for name in names)
        + "[parameters]\n"
        + "".join(f"{name.strip('*')} = {_write_holder(name)}\n" for name in held)
    )


def _write_holder(name: str) -> str:
    """Say what a parameter holds; a star says that each head has a row of it."""
    if name[0] != "*":
        return f'"{name}"'
    return f'{{ holds = "{name[1:]}", packing = "stacked" }}'


def find_broken(harness: Harness) -> str:
    contract = harness.contract
    cases = generate_case_set(contract, CASES)
    asked = (each for each in select_for_contract(contract) if each.name not in OF_OUR_MODULE)
    told = (accuse(claim, harness, claim.select_cases(contract, cases)) for claim in asked)
    return next(filter(None, told), "")


@pytest.mark.sampled("words", COMBINATIONS, COMBINATIONS[1::5])
def test_all_claims_hold_of_a_combination_and_a_mistake_breaks_one(
    words: str, tmp_path: Path
) -> None:
    file = tmp_path / "contract.toml"
    file.write_text(write_contract(words.split()), encoding="utf-8")
    contract = restate(load_contract(file))
    right = make_correct_computation(contract)
    assert find_broken(Harness(make_subject(make_namespace(contract, right)), contract)) == ""
    [pipeline] = right.pipelines
    unmasked = pipeline.override({"permit": scores.mask_inverted})
    doubled = pipeline.override({"scale": lambda s: 2 * s.raw_scores * s.inputs.scale})
    for wrong in (doubled,) if "features" in words or "full" in words else (doubled, unmasked):
        if "features" in words:
            wrong = pipeline.override({"mix": lambda s: 2 * s.applied_weights @ s.value})
        made = make_namespace(contract, replace(right, pipelines=(wrong,)))
        assert find_broken(Harness(make_subject(made), contract))
