"""Public files are the ones that were labelled, and nothing is said of the sealed ones."""

import hashlib
from pathlib import Path

import pytest

from benchmarks.open_sets import Judged, LabelledFile
from benchmarks.public_set import read_manifest, tell_sealed


def test_a_file_must_be_the_one_that_was_labelled(tmp_path: Path) -> None:
    (tmp_path / "001").mkdir()
    (tmp_path / "001" / "ada.py").write_text("import torch\n")
    digest = hashlib.sha256(b"import torch\n").hexdigest()
    manifest = tmp_path / "public.toml"
    manifest.write_text(
        f'[001]\npath = "ada.py"\nsha256 = "{digest}"\nlabel = "right"\nkind = "course"\n'
        'half = "sealed"\nabsent = false\n'
    )
    [public] = read_manifest(tmp_path, manifest)
    assert (public.is_sealed, public.is_complete) == (True, True)
    (tmp_path / "001" / "ada.py").write_text("import numpy\n")
    with pytest.raises(ValueError, match="001"):
        read_manifest(tmp_path, manifest)


def test_no_name_of_a_sealed_file_is_told() -> None:
    file = LabelledFile(Path("ada.py"), "right", "course")
    told = ("`Ada` is no layer of Ada's", "none (`ada`) answers", "`ada` No module named 'babbage'")
    judged = [Judged(file, "not judged", said, 1.0) for said in told]
    reasons = ("is no layer of", "none answers", "No module named")
    assert tell_sealed(judged) == [f"sealed, not judged: 1 × {reason}" for reason in reasons]
