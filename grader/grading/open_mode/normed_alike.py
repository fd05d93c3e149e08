"""Whether queries, keys and values of the same tokens are made of them behind the same norms.

A residual stream is normed before attention, or after it. A layer that norms it for its queries and
not for its keys, or for its keys and not for its values, mixes two scales; no published layer does.
A norm for keys that queries lack is right: layers that merge keys norm what they have merged.
"""

import re
from collections.abc import Iterator

from headcheck.grader.grading.tracing.graph import PARAMETER, Flow
from headcheck.grader.grading.tracing.operations import PRODUCTS, Action
from headcheck.properties.harness.aliases import infer_role

NORM = re.compile(r"norm|(^|[._])ln_?\w*", re.IGNORECASE)
"""in the name of a function, or in the path of a weight, that norms tokens"""
COMPARED = (("q", "k"), ("k", "v"), ("v", "k"))
"""letters of which the second must have every norm that the first has, or others of its own"""
WORDS = {"q": "queries", "k": "keys", "v": "values"}


def iter_normed_apart(flow: Flow, *, of_one: bool) -> Iterator[tuple[str, str, int]]:
    """Yield what tokens are normed for, for what they are not, and the step that reads them so.

    Only if the tokens are those `of_one` sequence must the keys have the norms of the queries.
    """
    compared = COMPARED if of_one else COMPARED[1:]
    for operands in _find_operands(flow).values():
        for normed, plain in compared if {*operands} == {*WORDS} else ():
            one, other = (flow.walk_back([operands[letter]]) for letter in (normed, plain))
            same = one & {*flow.inputs} == other & {*flow.inputs}
            if same and _list_norms(flow, one) > _list_norms(flow, other):
                yield WORDS[normed], WORDS[plain], operands[plain]


def _find_operands(flow: Flow) -> dict[str, dict[str, int]]:
    """Return the steps that layers for queries, keys and values read, by their place."""
    found: dict[str, dict[str, int]] = {}
    for number, path in flow.parameters.items():
        is_layer = path.endswith(".weight") and not NORM.search(path)
        role = infer_role(path) if is_layer else None
        if role in (("q",), ("k",), ("v",)):
            own = {number, *(n for n in flow.uses[number] if flow.does[n] is Action.LAYOUT)}
            place = path.removesuffix(".weight").rpartition(".")[0]
            for product in (n for each in own for n in flow.uses[each]):
                given = {*flow.steps[product].sources} - own - flow.parameters.keys()
                if flow.does[product] in PRODUCTS and len(given) == 1:
                    found.setdefault(place, {}).setdefault(role[0], min(given))
    return found


def _list_norms(flow: Flow, steps: set[int]) -> set[int]:
    return {n for n in steps if NORM.search(flow.steps[n].kind.removeprefix(PARAMETER))}
