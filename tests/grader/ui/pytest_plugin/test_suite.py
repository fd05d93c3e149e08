"""Cells: which there are, how they end, and what becomes of those that cannot be tried."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from headcheck.exercises import BY_SLUG
from headcheck.grader.grading import devices
from headcheck.grader.ui.pytest_plugin.locate import DefinitionNotFound, locate
from headcheck.grader.ui.pytest_plugin.plugin import apply_outcome, load_suite
from headcheck.grader.ui.pytest_plugin.suite import (
    PropertySuite,
    PropertyVariant,
    VariantOutcome,
    list_prerequisites,
)
from headcheck.grader.ui.pytest_plugin.target_settings import Setting, TargetSettings
from headcheck.properties.families.contract import (
    the_output_has_the_right_shape,
    the_weights_are_where_the_exercise_says,
)
from headcheck.properties.families.device import it_moves_to_another_device
from headcheck.properties.families.precision import bfloat16_runs
from headcheck.properties.families.values import it_equals_the_equation
from headcheck.properties.property import Verdict
from headcheck.properties.violations.violation import Status, SubmissionFailed

CONTRACT = BY_SLUG["simplified_attention"].contract


def right(x: Tensor) -> Tensor:
    return torch.softmax(x @ x.mT, dim=-1) @ x


def flat(x: Tensor) -> Tensor:
    return right(x).flatten()


def suite(answer: Callable[[Tensor], Tensor]) -> PropertySuite:
    return PropertySuite({CONTRACT.name: answer}, CONTRACT, cases=3)


# -------------------------------------------------------------------------------- cells


def test_there_is_a_cell_for_each_property_device_and_dtype_in_a_fixed_order() -> None:
    names = [cell.name for cell in suite(right).list_variants(["cpu", "cuda"])]
    assert names == [cell.name for cell in suite(flat).list_variants(["cpu", "cuda"])]
    assert len(names) == len(set(names))
    equation = [name for name in names if name.startswith("it_equals_the_equation")]
    assert [name.partition("[")[2] for name in equation] == [
        "cpu-float64]",
        "cpu-float32]",
        "cuda-float64]",
        "cuda-float32]",
    ]
    assert "bfloat16_runs[cpu-bfloat16]" in names
    assert "bfloat16_runs[cpu-float64]" not in names


def test_cell_depends_on_cells_of_its_dtype_if_any() -> None:
    float32 = list_prerequisites(
        PropertyVariant(it_equals_the_equation, "cpu", "float32"), CONTRACT
    )
    assert PropertyVariant(the_output_has_the_right_shape, "cpu", "float32") in float32
    assert {cell.dtype for cell in float32} == {"float32"}
    sixteen = list_prerequisites(PropertyVariant(bfloat16_runs, "cpu", "bfloat16"), CONTRACT)
    assert {cell.dtype for cell in sixteen} == {"float64", "float32"}


def test_cell_does_not_depend_on_inapplicable_properties() -> None:
    required = [
        cell.prop
        for cell in list_prerequisites(PropertyVariant(bfloat16_runs, "cpu", "float64"), CONTRACT)
    ]
    assert the_weights_are_where_the_exercise_says in bfloat16_runs.requires
    assert the_weights_are_where_the_exercise_says not in required


# ----------------------------------------------------------------------------- outcomes


def test_failed_property_blocks_its_dependants_in_any_order() -> None:
    tried = suite(flat)
    late = tried.get_outcome(PropertyVariant(it_equals_the_equation, "cpu", "float64"))
    assert "because of the_output_has_the_right_shape[cpu-float64]" in late.skipped
    first = tried.get_outcome(PropertyVariant(the_output_has_the_right_shape, "cpu", "float64"))
    assert first.blocks and "expected  shape" in first.failure


def test_a_device_that_is_not_there_skips_and_blocks_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    outcome = suite(right).get_outcome(PropertyVariant(it_equals_the_equation, "cuda", "float64"))
    assert outcome.skipped.startswith("needs a CUDA device: ")
    assert not outcome.blocks


def test_mps_has_no_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "explain_unavailable", lambda device: None)
    outcome = suite(right).get_outcome(PropertyVariant(it_equals_the_equation, "mps", "float64"))
    assert outcome == VariantOutcome(skipped="mps has no float64")


def test_unsupported_cell_is_skipped_with_the_reason() -> None:
    failure = SubmissionFailed(Status.NOT_TRIED, "RuntimeError: no kernel, and why")
    untried = Verdict(it_equals_the_equation, Status.NOT_TRIED, 1, failure=failure)
    outcome = suite(right).make_outcome(untried)
    assert outcome == VariantOutcome(skipped="not supported: RuntimeError: no kernel, and why")


def without_sixteen_bits(x: Tensor) -> Tensor:
    if x.dtype is torch.bfloat16:
        raise NotImplementedError("this library has no kernel for bfloat16")
    return right(x)


def test_a_dtype_that_a_library_does_not_have_is_skipped_and_the_usual_ones_are_tried() -> None:
    tried = suite(without_sixteen_bits)
    sixteen = tried.get_outcome(PropertyVariant(bfloat16_runs, "cpu", "bfloat16"))
    assert sixteen.skipped.startswith("not supported: NotImplementedError: this library has no")
    assert not sixteen.failure and not sixteen.blocks
    assert (
        tried.get_outcome(PropertyVariant(it_equals_the_equation, "cpu", "float64"))
        == VariantOutcome()
    )


def not_on_meta(x: Tensor) -> Tensor:
    if x.is_meta:
        raise RuntimeError("tensors on the meta device have no memory that the kernel could read")
    return right(x)


def test_refusing_the_second_device_is_no_failure() -> None:
    cell = PropertyVariant(it_moves_to_another_device, "cpu", "float32")
    outcome = suite(not_on_meta).get_outcome(cell)
    assert outcome.skipped.startswith("not supported: RuntimeError: tensors on the meta device")


def test_a_crash_is_a_failure() -> None:
    failure = SubmissionFailed(Status.CRASHED, "ValueError: no")
    crashed = Verdict(it_equals_the_equation, Status.CRASHED, 1, failure=failure)
    outcome = suite(right).make_outcome(crashed)
    assert outcome.blocks and "ValueError: no" in outcome.failure


def test_property_without_cases_is_skipped_not_passed() -> None:
    make = suite(right).make_outcome
    assert make(Verdict(it_equals_the_equation, Status.PASSED, 0)).skipped
    assert make(Verdict(it_equals_the_equation, Status.PASSED, 1)) == VariantOutcome()


def test_settling_ends_a_test_as_the_cell_ended() -> None:
    apply_outcome(VariantOutcome())
    with pytest.raises(pytest.skip.Exception, match="a reason"):
        apply_outcome(VariantOutcome(skipped="a reason"))
    with pytest.raises(pytest.fail.Exception, match="a claim") as failed:
        apply_outcome(VariantOutcome(failure="a claim"))
    assert failed.value.pytrace is False


# ------------------------------------------------------------------------------- devices


def test_workers_take_turns_at_the_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    for worker, its_own in (("gw0", "2"), ("gw1", "5"), ("gw2", "2"), ("gw13", "5")):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2, 5")
        devices.select_gpu(worker)
        assert devices.list_gpus() == [its_own]


def test_no_gpu_needs_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    devices.select_gpu("gw1")
    assert devices.list_gpus() == []


def test_a_device_beyond_the_last_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert devices.explain_unavailable("cuda:0") is devices.explain_unavailable("cuda") is None
    assert (
        devices.explain_unavailable("cuda:1")
        == "needs the device cuda:1: there are 1, numbered from 0"
    )
    assert devices.explain_unavailable("cpu") is None


# ------------------------------------------------------------------------------ by name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("json", "`json` names no definition"),
        ("json:", "`json:` names no definition"),
        ("json:loadz", "json defines no `loadz`; did you mean `load`?"),
        ("no_such.part:x", "there is no module `no_such`"),
        ("json.no_such:x", "there is no module `json.no_such`"),
        ("no/such.py:x", "there is no file no/such.py"),
    ],
)
def test_unresolvable_name_says_why(name: str, message: str) -> None:
    with pytest.raises(DefinitionNotFound) as problem:
        locate(name)
    assert str(problem.value).startswith(message)
    assert "\n" not in str(problem.value)


def test_code_that_cannot_be_imported_says_where(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text("import json\n\nraise ValueError('two\\nlines')\n")
    with pytest.raises(DefinitionNotFound) as problem:
        locate(f"{file}:x")
    told = "cannot be imported: ValueError: two lines (broken.py, line 3)"
    assert str(problem.value) == f"{file} {told}"


def test_a_file_may_import_its_neighbours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "neighbour_of_it.py").write_text("width = 3\n")
    (tmp_path / "it.py").write_text("from neighbour_of_it import width\n")
    assert locate(f"{tmp_path}/it.py:width")[1] == 3


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ("width=3", "--headcheck-sizes: `width` is no size"),
        ("batch=2", "simplified_attention has no sizes that keep `batch=2`"),
    ],
)
def test_sizes_that_cannot_be_are_a_usage_error(sizes: str, message: str) -> None:
    with pytest.raises(pytest.UsageError, match=re.escape(message)):
        load_suite(ask("simplified_attention", sizes))


def test_unknown_exercise_says_where_the_known_ones_are_listed() -> None:
    with pytest.raises(pytest.UsageError, match="no exercise 'zzz'; see `headcheck list`"):
        load_suite(ask("zzz", "tokens<=9"))


def ask(slug: str, sizes: str) -> TargetSettings:
    return TargetSettings(
        Setting("json:dumps", "--headcheck"),
        exercise=Setting(slug, "--exercise"),
        sizes=Setting(sizes, "--headcheck-sizes"),
    )
