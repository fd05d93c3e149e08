"""Code says by a docstring, or by the names of sizes, that the batch comes first."""

import pytest

from headcheck.grader.reading.cells import read_source
from headcheck.grader.reading.outline import list_definitions

CLASS = '''
class Layer(nn.Module):
    """{doc}"""

    def __init__(self, dim{option}):
        super().__init__()

    def forward(self, x):
        {first}
        b, t, d = {sizes}
        return x
'''


def quote(
    doc: str = "", option: str = "", first: str = "pass", sizes: str = "torch.zeros(3)"
) -> str:
    source = CLASS.format(doc=doc, option=option, first=first, sizes=sizes)
    [found] = list_definitions(read_source(source.encode(), "py"))
    return found.batch_first


@pytest.mark.parametrize("sizes", ["x.shape", "x.size()"])
def test_the_names_of_sizes_say_it(sizes: str) -> None:
    assert quote(sizes=sizes) == f"b, t, d = {sizes}"


@pytest.mark.parametrize(
    ("doc", "said"),
    [
        ("x: (batch, time, dim)", "(batch, time, dim)"),
        ("Takes [B, T, C].", "[B, T, C]"),
        ("weights: (bsz, tgt_len, src_len)", ""),
        ("x: (time, batch, dim), mask: (batch, time, dim)", ""),
        ("Time x Batch x Channel, as (B, T, C) elsewhere", ""),
    ],
)
def test_a_docstring_says_it(doc: str, said: str) -> None:
    assert quote(doc) == said


@pytest.mark.parametrize(
    "given",
    [
        {"first": "x = x.transpose(0, 1)"},
        {"first": "if self.first: x = x.mT"},
        {"option": ", batch_first=False"},
    ],
)
def test_sizes_of_other_tokens_say_nothing(given: dict[str, str]) -> None:
    assert quote(sizes="x.shape", **given) == ""


def test_sizes_that_no_tensor_gives_say_nothing() -> None:
    assert quote() == ""
