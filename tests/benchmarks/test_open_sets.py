"""A right file passes or is accused, and a wrong one is told or missed."""

from pathlib import Path

import pytest

from benchmarks.open_sets import Judged, LabelledFile, judge, read_labels, write_row
from headcheck.exercises import BY_SLUG

RIGHT = BY_SLUG["self_attention_v2"].solution
WRONG = RIGHT.replace("** 0.5", "** 2")


@pytest.mark.parametrize(
    ("source", "label", "outcome"),
    [(RIGHT, "right", "passed"), (WRONG, "right", "accused"), (WRONG, "wrong", "told")],
)
def test_a_file_is_judged_by_its_label(
    tmp_path: Path, source: str, label: str, outcome: str
) -> None:
    assert WRONG != RIGHT
    (tmp_path / "ada.py").write_text(source, encoding="utf-8")
    (tmp_path / "labels.toml").write_text(f'[ada]\nlabel = "{label}"\nkind = "course"\n')
    [file] = read_labels(tmp_path)
    assert judge(file).outcome == outcome


def test_a_row_counts_what_came_of_files() -> None:
    file = LabelledFile(Path("ada.py"), "right", "course")
    every = [Judged(file, each, "", 2.0) for each in ("passed", "told", "missed", "not judged")]
    assert write_row("A", every) == "| A | 4 | 2 | 0 | 1 | 1 | 1 | 2.0 | 2.0 |"
