"""The mechanisms that are switched off are functions that there are, and one decides a file."""

from importlib import import_module

from benchmarks import ablation
from tests.forms.bank import FOLDER

MASKED = FOLDER / "classes" / "054_encoder_mha.py"


def test_every_mechanism_is_there() -> None:
    missing = [m for m in ablation.MECHANISMS if not hasattr(import_module(m.module), m.name)]
    assert missing == []


def test_what_decides_a_file_is_told() -> None:
    names, lines = ablation.compare(MASKED, ["find_unfollowed", "_take_one"])
    assert names == ["find_unfollowed"]
    [(name, line)] = lines
    assert name == "find_unfollowed"
    assert line.startswith("054_encoder_mha.py: MultiHeadAttention failed ") and " → " in line
    assert ablation.describe((("A", "passed", 1.0),)) == "A passed 100%"
