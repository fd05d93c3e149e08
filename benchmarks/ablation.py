"""Show which mechanisms of open mode decide files: `python -m benchmarks.ablation PATH...`.

PATH is a file or a folder of files that nobody wrote for headcheck. Each file is graded with every
mechanism, and again without each one that did something. A mechanism that changes no result of
somebody else's files decides nothing; ADR 90 says how many results a mechanism must change to stay.
The table has, for each mechanism, the number of files in which it did something and the number of
results that change without it; a line for each such result follows.
"""

import argparse
import contextlib
import importlib
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.open_sets import grade_alone
from headcheck.properties.binding.bench import Bench, Settled

JOBS = 2
OPEN, BINDING = "headcheck.grader.grading.open_mode.", "headcheck.properties.binding."


@dataclass(frozen=True)
class Mechanism:
    """A function of open mode, and what it returns where the mechanism is switched off."""

    module: str
    name: str
    off: Callable[..., Any]

    def switch_off(self) -> contextlib.AbstractContextManager[Any]:
        """Replace the function while the context lasts."""
        return mock.patch.object(importlib.import_module(self.module), self.name, self.off)

    @contextlib.contextmanager
    def watch(self) -> Iterator[list[str]]:
        """Give a list, which gets the mechanism's name once it returns something else than off."""
        module, acted = importlib.import_module(self.module), list[str]()
        real = getattr(module, self.name)

        def run(*given: Any, **named: Any) -> Any:
            result = real(*given, **named)
            if not acted and result != self.off(*given, **named):
                acted.append(self.name)
            return result

        with mock.patch.object(module, self.name, run):
            yield acted


def nothing(*_: Any, **__: Any) -> None:
    """Find nothing."""


def settled(bench: Bench) -> Settled:
    """Leave a contract as it is."""
    return bench.settled


OFF: dict[Callable[..., Any], str] = {
    settled: f"""
        {BINDING}settling: settle_width _settle_weights_option _settle_results _settle_window
            settle_share _settle_farthest settle_joining settle_mask settle_roles settle_bias_option
            settle_dropout settle_steadiness settle_sizes settle_lengths settle_cache
            _settle_gradients settle_output_width
    """,
    nothing: f"""
        {BINDING}explaining: _unwrap _take_one _take_off _switch_on _read_as_normed
        {BINDING}binding: find_free_widths call_model
        {BINDING}settling: find_causal_option
        {BINDING}masks: find_unfollowed find_stated_polarity
        {BINDING}caches: _find_kept_cache
        {OPEN}recognition: match_by_name match_by_flow observe_layer
        {OPEN}observed_layers: judge_continued find_lost_tokens
    """,
    lambda *_: "": f"""
        {BINDING}binding: name_other_kind find_fault
        {BINDING}settling: quote_causality
        {BINDING}dropping: quote_shared_dropout
    """,
    lambda *_: []: f"""
        {OPEN}judge: list_other_masks
    """,
    lambda *_: False: f"""
        {BINDING}binding: _may_be_unscaled _lies_in_what_is_given
    """,
    lambda signature, _: signature: f"{BINDING}binding: _name_defaults",
}
"""what the functions of a module return where they are switched off"""
MECHANISMS = tuple(
    Mechanism(module, name, off)
    for off, text in OFF.items()
    for module, names in re.findall(r"([\w.]+): ([\w\s]+?)(?=\s+[\w.]+:|\s*$)", text)
    for name in names.split()
)
Result = tuple[tuple[str, str, float], ...]


def main() -> None:
    """Grade, and print the table."""
    parser = argparse.ArgumentParser("python -m benchmarks.ablation")
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="the mechanisms; else all")
    asked = parser.parse_args()
    files = [f for p in asked.paths for f in (sorted(p.glob("*.py")) if p.is_dir() else [p])]
    every = select(asked.only)
    acted, changed = Counter[str](), {each.name: list[str]() for each in every}
    with ProcessPoolExecutor(JOBS) as pool:
        for file, (names, lines) in zip(
            files, pool.map(compare, files, itertools.repeat(asked.only)), strict=True
        ):
            print(f"{file.name}: {', '.join(names)}", flush=True)
            for name in names:
                acted[name] += 1
            for name, line in lines:
                changed[name].append(line)
    print(f"\n| of {len(files)} files | acted | decided |\n|---|---|---|")
    for each in every:
        print(f"| {each.name.strip('_')} | {acted[each.name]} | {len(changed[each.name])} |")
    for name, told in changed.items():
        if told:
            print(f"\n{name}", *told, sep="\n  ")


def select(names: Sequence[str] | None) -> list[Mechanism]:
    """Return the mechanisms of these names, or all."""
    return [each for each in MECHANISMS if names is None or each.name in names]


def compare(file: Path, only: Sequence[str] | None) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the mechanisms that acted on a file, and the results that change without one."""
    with contextlib.ExitStack() as stack:
        watched = [(each, stack.enter_context(each.watch())) for each in select(only)]
        whole = grade(file)
    acted = [each for each, names in watched if names]
    lines = []
    for each in acted:
        with each.switch_off():
            without = grade(file)
        if without != whole:
            lines.append((each.name, f"{file.name}: {describe(whole)} → {describe(without)}"))
    return [each.name for each in acted], lines


def grade(file: Path) -> Result:
    """Return the name, the status and the share of points of each definition."""
    found = grade_alone(file)
    return tuple((r.name or "", r.status, round(r.score / (r.max_score or 1), 2)) for r in found)


def describe(result: Result) -> str:
    """Return a result as text."""
    return ", ".join(f"{name} {status} {share:.0%}" for name, status, share in result)


if __name__ == "__main__":
    main()
