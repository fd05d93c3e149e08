"""Comments before the first statement of `forward` are read as its docstring."""

import pytest

from headcheck.grader.reading.cells import read_source
from headcheck.grader.reading.outline import list_definitions


@pytest.mark.parametrize(
    ("forward", "said"),
    [
        ("def forward(self, x):  # x: (B, T, C)\n        return x", "x: (B, T, C)"),
        (
            "def forward(\n        self,\n        mask,  # 1 = keep\n    ):\n        pass",
            "1 = keep",
        ),
        (
            'def forward(self, x):\n        """Doc."""\n        # tokens\n        return x',
            "Doc.\ntokens",
        ),
        (
            "def forward(self, x):\n        y = x  # later\n        # later\n        return y",
            "",
        ),
        ("def forward(self, x):\n# x: tokens\n        return x", "x: tokens"),
        ("def forward(self, x):\n        # (unbalanced\n        return x", "(unbalanced"),
    ],
)
def test_comments_before_the_first_statement_of_forward_stand_for_a_docstring(
    forward: str, said: str
) -> None:
    [own] = list_definitions(read_source(f"class Own:\n    {forward}\n".encode(), "py"))
    assert own.doc == said


def test_long_docstrings_are_cut() -> None:
    source = f'def helper(x):\n    """{"a" * 5000}"""\n'
    [helper] = list_definitions(read_source(source.encode(), "py"))
    assert len(helper.doc) == 2000
