"""Rules for the sizes of an implementation that supports fewer sizes than its contract.

Written as `head_dim=even tokens<=64 heads=1,2,4 d_out%8`: each rule names a size, and says that the
size is even, is one of several numbers, is a multiple of a number, or is at most or at least a
number.
"""

import functools
import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from headcheck.properties.terms.case import Case

SIZE_NAMES = (
    "batch", "tokens", "context_length", "d_in", "d_out", "heads", "head_dim", "d_latent", "window",
    "kv_heads",
)  # fmt: skip
RULE = re.compile(r"(?P<name>[a-z_]+)(?P<relation><=|>=|=|%)(?P<value>even|\d+(?:,\d+)*)")
MAX_SIZE = 1 << 16
GRAMMAR = "write rules such as head_dim=even, heads=1,2,4, d_out%8, tokens<=64 or tokens>=2"


class BadSizes(ValueError):
    """Rules cannot be read, or no case satisfies them; the message says why in one line."""


@dataclass(frozen=True, slots=True)
class SizeRule:
    """The allowed values of one size."""

    name: str
    among: tuple[int, ...] = ()
    """the allowed values; empty if there is no such list"""
    multiple: int = 1
    least: int = 1
    most: int | None = None

    def allows(self, value: int) -> bool:
        listed = not self.among or value in self.among
        low = self.least <= value and (self.most is None or value <= self.most)
        return listed and low and value % self.multiple == 0

    def __str__(self) -> str:
        if self.among:
            return f"{self.name}={','.join(map(str, self.among))}"
        if self.multiple > 1:
            return f"{self.name}{'=even' if self.multiple == 2 else f'%{self.multiple}'}"
        return f"{self.name}>={self.least}" if self.most is None else f"{self.name}<={self.most}"


@dataclass(frozen=True, slots=True)
class SizeRules:
    """Rules for the sizes of a case, which must satisfy all of them."""

    rules: tuple[SizeRule, ...] = ()

    def __str__(self) -> str:
        return " ".join(map(str, self.rules))

    def allow(self, case: Case) -> bool:
        """Whether a case has these sizes."""
        rules = (rule for rule in self.rules if rule.name != "kv_heads")
        asked = ((rule, getattr(case, rule.name)) for rule in rules)
        fits = all(rule.allows(size) for rule, size in asked if size)  # what is open keeps all
        return fits and self.can_share(case.heads, case.group)

    def can_share(self, heads: int, group: int = 0) -> bool:
        """Whether this many heads may share keys, in groups of this size or of any size."""
        if all(rule.name != "kv_heads" for rule in self.rules):
            return True
        allows = self.get_test("kv_heads")
        return any(allows(heads // size) for size in ([group] if group else list_divisors(heads)))

    def fit(self, case: Case) -> Case:
        """Return the nearest case with these sizes. Raises BadSizes if there is none."""
        if self.allow(case):
            return case
        heads, head_dim = self._fit_heads(case.heads, case.head_dim)
        tokens, context_length = self._fit_lengths(case.tokens, case.context_length)
        return replace(
            case,
            batch=self.fit_size("batch", case.batch),
            d_in=self.fit_size("d_in", case.d_in),
            heads=heads,
            head_dim=head_dim,
            tokens=tokens,
            context_length=context_length,
        )

    def adapt(self, fixed: Mapping[str, int], same: Iterable[tuple[str, str]]) -> "SizeRules":
        """Return the rules with some sizes fixed, and others, given in pairs, equal."""
        rules = {*self.rules, *(SizeRule(name, among=(size,)) for name, size in fixed.items())}
        for one, other in same:
            swap = {one: other, other: one}
            rules |= {replace(r, name=swap[r.name]) for r in rules if r.name in swap}
        return SizeRules(tuple(sorted(rules, key=str)))

    def fit_size(self, name: str, value: int, least: int = 1, most: int | None = None) -> int:
        """Return the nearest allowed value of a size. Raises BadSizes if there is none."""
        candidates = _list_by_distance(value, self.get_top(value, name))
        return self._choose(name, (c for c in candidates if c >= least and (not most or c <= most)))

    def _fit_lengths(self, tokens: int, context_length: int) -> tuple[int, int]:
        tokens = self.fit_size("tokens", min(tokens, context_length))
        top = self.get_top(max(context_length, tokens), "context_length")
        longer = [c for c in _list_by_distance(context_length, top) if c >= tokens]
        if context := next(filter(self.get_test("context_length"), longer), None):
            return tokens, context
        context = self.fit_size("context_length", context_length)
        return self.fit_size("tokens", tokens, most=context), context

    def _fit_heads(self, heads: int, head_dim: int) -> tuple[int, int]:
        pair = _choose_heads(self, heads, head_dim)
        if pair is None:
            raise BadSizes(f"no heads and head_dim keep the sizes `{self}`")
        return pair

    def _choose(self, name: str, candidates: Iterable[int]) -> int:
        chosen = next(filter(self.get_test(name), candidates), None)
        if chosen is None:
            raise BadSizes(f"no {name} keeps the sizes `{self}`")
        return chosen

    def get_test(self, name: str) -> Callable[[int], bool]:
        """Return a function that says whether one size may have a value."""
        rules = [rule for rule in self.rules if rule.name == name]
        return lambda value: all(rule.allows(value) for rule in rules)

    def get_top(self, value: int, *names: str) -> int:
        """Return a number that is at least the smallest allowed size, if any size is allowed."""
        rules = [rule for rule in self.rules if rule.name in names]
        named = (number for rule in rules for number in (rule.least, *rule.among))
        return max(value, *named, 1) + math.lcm(*(rule.multiple for rule in rules))


@functools.lru_cache(maxsize=4096)
def _choose_heads(rules: SizeRules, heads: int, head_dim: int) -> tuple[int, int] | None:
    """Return the nearest number and width of heads; of equally near ones, the given number."""
    widths = rules.get_test("d_out")
    names = "heads", "head_dim", "d_out"
    pairs = itertools.product(
        filter(rules.get_test("heads"), range(1, rules.get_top(heads, *names, "kv_heads") + 1)),
        filter(rules.get_test("head_dim"), range(1, rules.get_top(head_dim, *names) + 1)),
    )
    fitting = (pair for pair in pairs if widths(pair[0] * pair[1]) and rules.can_share(pair[0]))

    def distance(pair: tuple[int, int]) -> tuple[int, int, int]:
        moved = abs(pair[0] - heads), abs(pair[1] - head_dim)
        return sum(moved), moved[0], -pair[1]

    return min(fitting, key=distance, default=None)


def list_divisors(number: int) -> list[int]:
    """Return the numbers that divide a number, in order."""
    return [each for each in range(1, number + 1) if number % each == 0]


def _list_by_distance(value: int, top: int) -> list[int]:
    """Return the numbers from 1 to `top`, nearest first; of two equally near ones, the larger.

    The larger one comes first, because it still satisfies a minimum that a property needs.
    """
    return sorted(range(1, top + 1), key=lambda c: (abs(c - value), -c))


def parse_sizes(text: str) -> SizeRules:
    """Read rules separated by spaces. Raises BadSizes."""
    return SizeRules(tuple(map(_parse_rule, text.split())))


def _parse_rule(text: str) -> SizeRule:
    found = RULE.fullmatch(text)
    if found is None:
        raise BadSizes(f"`{text}` is no rule for a size: {GRAMMAR}")
    name, relation, value = found.group("name", "relation", "value")
    if name not in SIZE_NAMES:
        raise BadSizes(f"`{name}` is no size; there are {', '.join(SIZE_NAMES)}")
    if value == "even":
        if relation == "=":
            return SizeRule(name, multiple=2)
    elif relation == "=":
        return SizeRule(name, among=tuple(sorted({_parse_size(n, text) for n in value.split(",")})))
    elif "," not in value:
        field = {"%": "multiple", "<=": "most", ">=": "least"}[relation]
        return SizeRule(name, **{field: _parse_size(value, text)})  # type: ignore[arg-type]
    raise BadSizes(f"`{text}` is no rule for a size: {GRAMMAR}")


def _parse_size(text: str, rule: str) -> int:
    size = int(text) if len(text) < 8 else 0
    if not 1 <= size <= MAX_SIZE:
        raise BadSizes(f"`{rule}`: a size lies between 1 and {MAX_SIZE}")
    return size
