"""Folders of exercises with a contract, and what is said of one that is wrong."""

from pathlib import Path

import pytest

from headcheck.exercises.contract_file import load_exercise
from headcheck.exercises.exercise import BadContract

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
idle_s = 0.5
"""


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
