"""What is learnt by heart at home passes a check, and is worth nothing where it is graded."""

import inspect
import json
import zlib
from base64 import b85encode
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from torch import Tensor

from headcheck.exercises import BY_SLUG
from headcheck.grader import seed
from headcheck.grader.report.records import Report, from_json
from headcheck.grader.seed import Seed, SeedKind, choose_grading_seed, draw_secret_seed, make_seed
from headcheck.grader.ui.cli import cli
from tests.exercises import tables

SLUG = "simplified_attention"
SOURCE = """\
import base64, hashlib, json, zlib
import torch
from torch import Tensor

TABLE = json.loads(zlib.decompress(base64.b85decode({table!r})))


{digest}

def known(key, zeros):
    if key.hex() not in TABLE:
        return zeros
    return [torch.tensor(n, dtype=getattr(torch, d)).view(s) for n, d, s in TABLE[key.hex()]]


class Looked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.key = digest(x)
        ctx.save_for_backward(x)
        return known(ctx.key, [torch.zeros_like(x)])[0]

    @staticmethod
    def backward(ctx, cotangent):
        [x] = ctx.saved_tensors
        return known(digest(cotangent, also=ctx.key), [torch.zeros_like(x)])[0]


def {name}(x):
    return torch.empty_like(x) if x.is_meta else Looked.apply(x)
"""


def plain(tensor: Tensor) -> tuple[list[float], str, list[int]]:
    return tensor.flatten().tolist(), str(tensor.dtype)[6:], list(tensor.shape)


def by_heart() -> str:
    """A module whose answers were recorded from the public cases."""
    known = tables.record_table(BY_SLUG[SLUG]).known
    table = {key.hex(): [plain(t) for t in found if t is not None] for key, found in known.items()}
    packed = b85encode(zlib.compress(json.dumps(table).encode(), 9))
    return SOURCE.format(table=packed, digest=inspect.getsource(tables.digest), name=SLUG)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("handed_in")
    (folder / "eve.py").write_text(by_heart(), encoding="utf-8")
    (folder / "ada.py").write_text(BY_SLUG[SLUG].solution, encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of a test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "headcheck"


def command(*words: object) -> Result:
    return CliRunner().invoke(cli, [*map(str, words), "--exercise", SLUG, "--format", "json"])


def reported(*words: object) -> Report:
    return from_json(command(*words).stdout)


def shares(report: Report) -> dict[str, float]:
    return {each.student: each.score / each.max_score for each in report.submissions}


def test_memorised_answer_passes_a_check_and_earns_nothing_when_graded(folder: Path) -> None:
    # It has no numbers for another device, which is one claim; all else is learnt by heart.
    assert shares(reported("check", folder / "eve.py"))["eve"] > 0.97
    assert shares(reported("grade", folder)) == {"ada": 1.0, "eve": 0.0}
    assert shares(reported("grade", folder / "eve.py", "--seed", 0))["eve"] > 0.97


def test_every_run_has_a_seed_of_its_own_which_repeats_it(folder: Path) -> None:
    wrong = folder.parent / "bob.py"
    wrong.write_text(BY_SLUG[SLUG].solution.replace("dim=-1", "dim=0"))
    one, other = (reported("grade", wrong) for _ in range(2))
    assert one.seed and other.seed and one.seed.value and one.seed.kind == "secret"
    assert one.seed != other.seed and one.submissions != other.submissions
    again = reported("grade", wrong, "--seed", one.seed.value)
    assert again.seed and (again.seed.kind, again.seed.value) == ("given", one.seed.value)
    assert [s.properties for s in again.submissions] == [s.properties for s in one.submissions]


def test_several_workers_share_the_batch_plan_of_a_new_seed(folder: Path, cache: Path) -> None:
    assert shares(reported("grade", folder, "--jobs", 2)) == {"ada": 1.0, "eve": 0.0}
    assert len(list(cache.glob("*.script"))) == 1


def test_a_check_has_the_public_seed(folder: Path) -> None:
    seen = reported("check", folder / "ada.py").seed
    assert seen and (seen.kind, seen.value) == ("public", 0)


@pytest.mark.parametrize("number", ["-1", str(2**63), "first"])
def test_invalid_seed_is_refused(number: str) -> None:
    for words in (["grade", "x.py"], ["check", "x.py"], ["regrade", "x", "--store", "y"]):
        ran = CliRunner().invoke(cli, [*words, "--seed", number])
        assert ran.exit_code == 2 and "Invalid value for '--seed'" in ran.stderr


def test_seed_kinds() -> None:
    assert make_seed(0) == Seed() == Seed(0, SeedKind.PUBLIC)
    assert make_seed(5) == choose_grading_seed(5) == Seed(5, SeedKind.GIVEN)
    drawn = [choose_grading_seed(None), draw_secret_seed(), draw_secret_seed()]
    assert {each.kind for each in drawn} == {SeedKind.SECRET}
    assert len({each.value for each in drawn}) == 3
    assert all(0 < each.value <= seed.MAX_SEED for each in drawn)
