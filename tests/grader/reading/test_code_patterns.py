"""Code patterns: what a piece of code reads like, and where it stands."""

import inspect

import pytest

from headcheck.grader.reading import code_patterns
from headcheck.grader.reading.cells import read_source
from headcheck.grader.reading.code_patterns import (
    MAX_DETAIL_LENGTH,
    MAX_PATTERNS,
    find_code_patterns,
)
from headcheck.properties.mistakes.catalogue import ALL
from headcheck.properties.mistakes.catalogue.structure import STRUCTURAL
from tests.notebooks import read_notebook


def read(line: str) -> set[tuple[str, str]]:
    """What one line of `forward` reads like, but for what it returns."""
    source = read_notebook(f"class Wanted(nn.Module):\n    def forward(self, x):\n        {line}")
    return {(mark.kind, mark.detail) for mark in find_code_patterns(source, "Wanted")}


@pytest.mark.parametrize(
    ("line", "kind", "detail"),
    [
        ("w = torch.softmax(s, dim=-1)", "softmax", "dim=-1"),
        ("w = torch.softmax(s, 1)", "softmax", "dim=1"),
        ("w = F.softmax(s)", "softmax", "dim="),
        ("w = s.softmax(0)", "softmax", "dim=0"),
        ("w = nn.Softmax(dim=2)(s)", "softmax", "dim=2"),
        ("w = nn.Softmax(2)(s)", "softmax", "dim=2"),
        ("w = s.log_softmax(-1)", "softmax", "log dim=-1"),
        ("s = s.masked_fill(mask == 0, -1e9)", "fill", "-1000000000.0"),
        ("s.masked_fill_(mask, float('-inf'))", "fill", "-inf"),
        ("s = s.masked_fill(mask, value=-torch.inf)", "fill", "-inf"),
        ("s = s.masked_fill(mask, math.inf)", "fill", "inf"),
        ("s = s.masked_fill(mask, torch.finfo(s.dtype).min)", "fill", "-inf"),
        ("s = torch.where(mask, s, 0)", "fill", "0"),
        ("s[mask] = -10", "fill", "-10"),
        ("m = torch.triu(torch.ones(3, 3), diagonal=1)", "triangle", "triu diagonal=1"),
        ("m = torch.triu(torch.ones(3, 3), 1)", "triangle", "triu diagonal=1"),
        ("m = torch.ones(3, 3).tril(-1)", "triangle", "tril diagonal=-1"),
        ("m = torch.ones(3, 3).tril_()", "triangle", "tril diagonal="),
        ("s = s / d_k ** 0.5", "scale", "d_k"),
        ("s = s * d_k ** -0.5", "scale", "d_k"),
        ("s = s / d_k ** (1 / 2)", "scale", "d_k"),
        ("s = s / math.sqrt(d_k)", "scale", "math.sqrt(d_k)"),
        ("s = s * self.scale", "scale", "s * self.scale"),
        ("s = s / d_k", "divide", "d_k"),
        ("s /= d_k", "divide", "d_k"),
        ("s = s * mask", "times", "s * mask"),
        ("s = q @ k.transpose(1, 2)", "scores", "q @ k.transpose(1, 2)"),
        ("s = q @ k.mT", "scores", "q @ k.mT"),
        ("s = torch.bmm(q, k.permute(0, 2, 1))", "scores", "torch.bmm(q, k.permute(0, 2, 1))"),
        ("s = q.matmul(k.T)", "scores", "q.matmul(k.T)"),
        ("s = torch.einsum('bqd,bkd->bqk', q, k)", "scores", None),
        ("c = torch.einsum('bqk,bkd->bqd', w, v)", "mix", None),
        ("c = w @ v", "mix", "w @ v"),
        ("q = x @ self.W_query", "projection", "x @ self.W_query"),
        ("q = x @ self.W_query.weight.T", "projection", None),
        ("q = self.W_query(x)", "projection", "W_query"),
        ("q = F.linear(x, w)", "projection", None),
        ("q = q.view(b, t, h, -1)", "reshape", "q.view(b, t, h, -1)"),
        ("c = torch.cat(heads, dim=1)", "stack", "dim=1"),
        ("w = F.dropout(w, 0.1)", "dropout", "F.dropout(w, 0.1)"),
        ("y = F.scaled_dot_product_attention(q, k, v, scale=1.0)", "kernel", "scale=1.0"),
        ("return y", "return", "y"),
        ("z[:, 0] = x", "in_place", "z[:, 0] = x"),
        ("x *= 2", "in_place", "x *= 2"),
        ("x.mul_(2)", "in_place", "x.mul_(2)"),
        ("y = x.data", "detach", "x.data"),
        ("y = x.detach()", "detach", "x.detach()"),
    ],
)
def test_line_is_recognised_as_its_pattern(line: str, kind: str, detail: str | None) -> None:
    found = read(line)
    assert kind in {kind for kind, _ in found}
    assert detail is None or (kind, detail) in found


@pytest.mark.parametrize("line", ["self.register_buffer('m', m)", "s = mask"])
def test_other_code_has_no_pattern(line: str) -> None:
    assert {kind for kind, _ in read(line)} <= {"index", "unused"}


def test_location_is_a_cell_and_its_line() -> None:
    source = read_notebook(
        "import torch\nw = torch.softmax(x, 0)",
        "def weigh(s):\n    return s.softmax(1)",
        "class Other(nn.Module):\n    def forward(self, x):\n        return x.softmax(2)",
        "class Wanted(nn.Module):\n    def helper(self, x):\n        return x\n\n"
        "    def forward(self, x):\n        w = weigh(x)\n        return w.softmax(-1)",
    )
    found = [(m.kind, m.detail, m.cell, m.line) for m in find_code_patterns(source, "Wanted")]
    assert found == [
        ("return", "s.softmax(1)", 2, 2),
        ("softmax", "dim=1", 2, 2),
        ("return", "w.softmax(-1)", 4, 7),
        ("softmax", "dim=-1", 4, 7),
    ]


def test_a_module_has_no_cells() -> None:
    source = read_source(b"def wanted(x):\n    return x.softmax(-1)", "py")
    assert {mark.cell for mark in find_code_patterns(source, "wanted")} == {None}


def test_code_patterns_are_short_and_limited() -> None:
    long = "return [" + ", ".join(f"x{i}.exp()" for i in range(1000)) + "]"
    found = find_code_patterns(read_source(f"def wanted(x):\n    {long}".encode(), "py"), "wanted")
    assert len(found) <= MAX_PATTERNS
    assert max(len(mark.detail) for mark in found) <= MAX_DETAIL_LENGTH


def test_no_code_patterns_without_the_definition() -> None:
    assert find_code_patterns(read_notebook("x = 1"), "Wanted") == ()


TWO_RESULTS = """
def wanted(queries, keys):
    scores = queries @ keys.T
    first = torch.softmax(scores, dim=-1)
    first.tril_()
    mask = torch.ones(3, 3).triu(1)
    second = {changed}torch.softmax(scores.masked_fill(mask, -torch.inf), dim=-1)
    return first / first.sum(dim=-1), second
"""


@pytest.mark.parametrize(
    ("changed", "first", "second"),
    [
        ("", {"softmax", "in_place", "triangle"}, {"softmax", "fill", "triangle"}),
        ("first + ", set(), {"softmax", "fill", "triangle", "add"}),
    ],
)
def test_a_line_that_serves_one_of_two_results_says_which(
    changed: str, first: set[str], second: set[str]
) -> None:
    source = read_source(TWO_RESULTS.format(changed=changed).encode(), "py")
    found = find_code_patterns(source, "wanted")
    assert {mark.kind for mark in found if mark.result == 0} == first
    assert {mark.kind for mark in found if mark.result == 1} == second
    assert {mark.kind for mark in found if mark.result is None} >= {"scores"}


def test_every_pattern_that_a_mistake_asks_for_can_be_found() -> None:
    text = inspect.getsource(code_patterns)
    mistakes = (*ALL, *(each.mistake for each in STRUCTURAL))
    asked = {matcher.kind for mistake in mistakes for matcher in mistake.code_matchers}
    assert {"seed", "softmax"} <= asked
    assert {kind for kind in asked if f'"{kind}"' not in text} == set()


def test_sums_that_a_loop_adds_to_as_they_are_are_found() -> None:
    loop = """def wanted(xs, alpha):
    total, mixed, other = 0, 0, 0
    total += 1
    for x in xs:
        total = total + x.sum(-1)
        mixed += x @ x
        other = other * alpha + x
        third = total + other
    return total"""
    found = find_code_patterns(read_source(loop.encode(), "py"), "wanted")
    running = [(each.line, each.detail) for each in found if each.kind == "running"]
    assert running == [(5, "x.sum(-1)"), (6, "x @ x")]


def test_unused_arguments_of_what_is_called_from_outside_are_found() -> None:
    code = """class Wanted(nn.Module):
    def __init__(self, width, bias=False):
        self.width = width

    def _helper(self, unused):
        return 1

    def forward(self, x, mask):
        return x + self._helper(x)"""
    found = find_code_patterns(read_source(code.encode(), "py"), "Wanted")
    unused = [(each.line, each.detail) for each in found if each.kind == "unused"]
    assert unused == [(2, "bias"), (8, "mask")]
