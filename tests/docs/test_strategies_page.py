"""The blocks of docs/strategies.md run, in order, and its figures are those of the code."""

import re
from pathlib import Path
from typing import Any

from hypothesis import settings

from headcheck.grader.ui.pytest_plugin import search
from headcheck.properties.cases import strategies

PAGE = (Path(__file__).parents[2] / "docs" / "strategies.md").read_text(encoding="utf-8")


def test_the_blocks_run_and_their_tests_pass() -> None:
    namespace: dict[str, Any] = {"__name__": "page"}
    settings.register_profile("page", max_examples=20, derandomize=True, database=None)
    before = settings.get_current_profile_name()
    settings.load_profile("page")
    try:
        for block in re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S):
            exec(compile(block, "docs/strategies.md", "exec"), namespace)
        tests = [value for name, value in namespace.items() if name.startswith("test_")]
        assert len(tests) == 2
        for test in tests:
            test()
    finally:
        settings.load_profile(before)


def test_figures_are_those_of_the_code() -> None:
    usual = ", ".join(str(size) for size in strategies.USUAL_SIZES.values())
    assert f"`max_batch`, `max_d_in` | {usual} |" in PAGE
    most = search.LARGEST_SIZES
    tokens, heads, batch = most["max_tokens"], most["max_heads"], most["max_batch"]
    assert most["max_head_dim"] == most["max_d_in"] == 128
    said = " ".join(PAGE.split())
    assert f"up to {tokens} tokens, {heads} heads, 128 dimensions" in said
    assert f"a batch of {batch}" in said
    assert f"A property that has {search.FULL_LIMIT} cases in the bank gets all" in said
    assert (search.COSTLY_LIMIT, search.SHRINK_SECONDS) == (4, 20)
