"""What every test runs under: one torch thread, checked shapes, a Hypothesis profile."""

import gc
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from jaxtyping import config, install_import_hook

from headcheck.grader.grading.devices import explain_unavailable
from tests.servers import connect_zygote, server, shared_zygote

# What has its annotated shapes checked on every call while tests run: of `reference` all but
# the recipe and the mistakes in it, which are followed by the thousand and may have any shape.
SHAPE_CHECKED = [
    f"headcheck.reference.{name}" for name in ("attention", "masks", "multi_head", "streaming")
]
# The tests in these folders, which call all of it, and with every part, check shapes in every run;
# the others with `--whole` or `-m deep`: to check takes a quarter of the time of many.
WHERE_CHECKED = [Path(__file__).parent / name for name in ("reference", "kinds")]

# Before any operation: the thread pool that one starts would outlive the call, and a process
# with threads cannot be forked safely.
torch.set_num_threads(1)

# Collecting makes thousands of tests and hardly any garbage, which takes long to look for.
gc.disable()

settings.register_profile("dev", max_examples=25, deadline=None)
settings.register_profile(
    "ci", max_examples=40, deadline=None, derandomize=True, database=None, print_blob=True
)
settings.register_profile("full", settings.get_profile("ci"), max_examples=100)
settings.register_profile("deep", max_examples=1000, deadline=None)
settings.load_profile("dev")  # --hypothesis-profile overrides this

# A module imported before the hook is never checked, and nothing would say so.
if imported := [name for name in SHAPE_CHECKED if name in sys.modules]:
    raise pytest.UsageError(
        f"shapes cannot be checked in {', '.join(imported)}: imported before tests/conftest.py. "
        "Let headcheck.grader.ui.pytest_plugin.plugin import it where it is used."
    )
# Who verifies an implementation from within a checkout loads this file, too, and needs no beartype.
HAS_BEARTYPE = find_spec("beartype") is not None
if HAS_BEARTYPE:
    install_import_hook(SHAPE_CHECKED, "beartype.beartype")

__all__ = ["connect_zygote", "server", "shared_zygote"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--whole", action="store_true", help="run every member of each family, not a sample"
    )
    parser.addoption(
        "--changed", action="store_true", help="run only test files near what changed, by imports"
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `--changed`, leave out the test files that the change at hand does not need."""
    if not config.option.changed or not collection_path.name.startswith("test_"):
        return None
    from tests.chosen import choose_for_change  # grimp is needed by this option alone

    path = collection_path.relative_to(Path(__file__).parents[1]).as_posix()
    return None if path in choose_for_change() else True


def pytest_collection_finish() -> None:
    gc.freeze()
    # A search for all garbage takes 0.3 s here; by default they were a tenth of a test's time.
    gc.set_threshold(100_000)
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Check shapes, or leave them: before the first fixture of a test is set up."""
    is_ordinary = not item.config.option.whole and item.config.option.markexpr == "not deep"
    is_checked = any(folder in item.path.parents for folder in WHERE_CHECKED)
    config.update("jaxtyping_disable", is_ordinary and not is_checked)


def pytest_pycollect_makeitem(
    collector: pytest.Collector, name: str, obj: object
) -> list[pytest.Item] | None:
    """Generate nothing for a test marked deep or whole unless an option asks for such tests."""
    option = collector.config.option
    if option.markexpr != "not deep":
        return None
    left_out = {"deep"} if option.whole else {"deep", "whole"}
    marks = {mark.name for mark in getattr(obj, "pytestmark", ())}
    return [] if marks & left_out else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize by `@pytest.mark.sampled(names, whole, sample)`: by all of it with `--whole`."""
    for mark in metafunc.definition.iter_markers("sampled"):
        names, whole, sample = mark.args
        chosen = whole if metafunc.config.getoption("whole") else sample
        metafunc.parametrize(names, list(chosen), **mark.kwargs)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.markexpr == "not deep" and not config.option.whole:
        # Some members of a family may be marked, of which `makeitem` knows nothing.
        marked = [item for item in items if item.get_closest_marker("whole")]
        config.hook.pytest_deselected(items=marked)
        items[:] = [item for item in items if item not in marked]
    ours = config.option.whole or config.option.markexpr != "not deep"
    folders = [Path(__file__).parent] if ours else WHERE_CHECKED
    if not HAS_BEARTYPE and any(f in item.path.parents for item in items for f in folders):
        raise pytest.UsageError(
            "these tests check shapes, and beartype is not installed; "
            "as CONTRIBUTING.md says: pip install -c constraints.txt -e '.[dev,course]'"
        )
    reason = explain_unavailable("cuda")
    if reason is None:
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason=reason))
