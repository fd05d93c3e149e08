"""`headcheck verify`: the first failure comes first, then one screen; and nothing is done twice."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from headcheck.exercises import BY_SLUG
from headcheck.grader.ui.pytest_plugin.plugin import use_one_thread
from headcheck.grader.ui.pytest_plugin.suite import PropertySuite, PropertyVariant
from headcheck.grader.ui.pytest_plugin.verify_report import list_cause, shorten
from headcheck.properties.families.sizes import every_size_is_right
from tests.interpreter import run_python

CONTRACT = BY_SLUG["simplified_attention"].contract
SCALED = '''
import torch


def simplified_attention(x):
    """Divide scores by a root that nobody asked for."""
    return torch.softmax(x @ x.T / x.shape[1] ** 0.5, dim=1) @ x
'''
RIGHT = SCALED.replace(" / x.shape[1] ** 0.5", "")


def verify(folder: Path, source: str, *words: str) -> tuple[int, list[str]]:
    (folder / "own.py").write_text(source, encoding="utf-8")
    asked = ("--exercise", "simplified_attention", "--cases", "bank", *words)
    verified = ("-m", "headcheck", "verify", "own.py:simplified_attention")
    done = run_python(*verified, *asked, folder=folder)
    return done.returncode, done.stdout.splitlines()


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What is said of a wrong answer."""
    folder = tmp_path_factory.mktemp("scaled")
    code, said = verify(folder, SCALED, "-k", "equation or scale or shape or size or finite")
    assert code == 1
    return said


def test_the_first_failure_and_its_mistake_come_first(lines: list[str]) -> None:
    assert lines[0].startswith("FAILED it_equals_the_equation[cpu-float64]")
    fails = next(n for n, line in enumerate(lines) if line.startswith("Fails: "))
    assert any("root" in line for line in lines[1:fails]), "the mistake has a name"
    assert sum(line.startswith("Fails: ") for line in lines) == 1


def test_then_one_screen_says_what_failed_and_what_was_skipped(lines: list[str]) -> None:
    text = "\n".join(lines)
    failed = next(line for line in lines if line.startswith("it_equals_the_equation ["))
    assert failed.startswith(
        "it_equals_the_equation [cpu-float64, cpu-float32] The output equals the equation"
    )
    assert " Got " in failed
    skipped = [
        line for line in lines if line.endswith("not tried, because of it_equals_the_equation")
    ]
    assert len(skipped) == 1 and int(skipped[0].split()[0]) > 2
    assert "Traceback" not in text and len(lines) < 45
    assert " failed, " in lines[-1] and " passed, " in lines[-1] and " skipped" in lines[-1]


def test_options_are_those_of_pytest(tmp_path: Path) -> None:
    code, lines = verify(tmp_path, SCALED, "-x", "-q", "-k", "equation or finite")
    assert code == 1
    assert "1 failed" in "\n".join(lines) and "=== failed" not in "\n".join(lines)
    code, lines = verify(tmp_path, RIGHT, "-q", "-k", "output_is_finite")
    assert (code, [*filter(None, lines)]) == (0, ["2 passed"])
    code, lines = verify(tmp_path, RIGHT, "-k", "no_property_has_this_name")
    assert code == 2


def test_long_lists_say_how_many_rows_are_left_out() -> None:
    assert shorten(["a"] * 3) == ["a"] * 3
    *rows, last = shorten([str(n) for n in range(14)])
    assert rows == [str(n) for n in range(10)]
    assert last == "and 4 more: `pytest --headcheck NAME` prints every message"


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ("Fails: It is so.\n  expected  1\n  got       2; all", ["It is so.", "Got 2; all"]),
        ("Crashed in this check: It is so.", ["Crashed in this check: It is so."]),
        ("", [""]),
    ],
)
def test_the_cause_is_the_claim_and_what_was_got(message: str, cause: list[str]) -> None:
    assert [*list_cause(message)] == cause


def test_one_thread_is_used_and_then_as_many_as_before() -> None:
    before = torch.get_num_threads()
    with use_one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


def test_each_case_is_called_once() -> None:
    sizes = list[tuple[int, ...]]()

    def attend(x: Tensor) -> Tensor:
        sizes.append(tuple(x.shape))
        return torch.softmax(x @ x.mT, dim=-1) @ x

    suite = PropertySuite({CONTRACT.name: attend}, CONTRACT)
    variant = PropertyVariant(every_size_is_right, "cpu", "float64")
    assert suite.explain_skipping(variant) is None, "what it depends on is tried now"
    bank = suite.case_set
    assert not any(map(suite.is_left_out, bank))
    sizes.clear()
    assert not suite.get_outcome(variant).failure
    cases = every_size_is_right.select_cases(CONTRACT, bank)
    assert len(sizes) <= len(cases) + len(bank)


def test_a_case_that_is_refused_in_the_middle_is_left_out_and_the_others_count() -> None:
    def attend(x: Tensor) -> Tensor:
        if x.shape[-2] == 17:
            raise ValueError("no primes")
        return torch.softmax(x @ x.mT, dim=-1) @ x

    suite = PropertySuite({CONTRACT.name: attend}, CONTRACT)
    variant = PropertyVariant(every_size_is_right, "cpu", "float64")
    assert suite.get_outcome(variant).failure == "", "no_case_is_refused reports it"

    def wrong_later(x: Tensor) -> Tensor:
        return attend(x) + (x.shape[-2] == 33)

    suite = PropertySuite({CONTRACT.name: wrong_later}, CONTRACT)
    assert "tokens=33" in suite.get_outcome(variant).failure
