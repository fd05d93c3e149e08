"""The mechanisms that are switched off are functions that there are, and one decides a file."""

from importlib import import_module

from benchmarks import ablation
from tests.forms.bank import FOLDER

WINDOW = FOLDER / "classes" / "112_sliding_window.py"


def test_every_mechanism_is_there() -> None:
    missing = [m for m in ablation.MECHANISMS if not hasattr(import_module(m.module), m.name)]
    assert missing == []


def test_what_decides_a_file_is_told() -> None:
    names, lines = ablation.compare(WINDOW, ["_settle_window", "_take_one"])
    assert names == ["_settle_window"]
    assert [name for name, _ in lines] in ([], ["_settle_window"])
    assert ablation.describe((("A", "passed", 1.0),)) == "A passed 100%"
