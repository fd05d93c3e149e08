"""Docstrings of what a class calls are read where the class passes on what it was given."""

import textwrap

import pytest

from headcheck.grader.reading.cells import read_source
from headcheck.grader.reading.outline import list_definitions

SOURCE = '''
def helper(tokens, window):
    """Of the helper."""

def unused(tokens):
    """Of no one."""

class Other:
    def forward(self, x):
        """Of another class."""

class Own:
    """Of the class."""

    def __init__(self, window):
        self.window = {stored}
        self.other = Other()

    def cut(self, x):
        """Of the method."""

    def forward(self, x, window=None):
        """Of forward."""
        {before}
        self.other(self.cut({cut}))
        return {call}
'''


def read(stored: str = "window", before: str = "", cut: str = "x", call: str = "None") -> list[str]:
    source = SOURCE.format(stored=stored, before=before, cut=cut, call=call)
    definitions = list_definitions(read_source(textwrap.dedent(source).encode(), "py"))
    own = next(each for each in definitions if each.name == "Own")
    assert own.doc == "Of the class.\nOf forward."
    return own.called_doc.splitlines()


@pytest.mark.parametrize(
    "call", ["helper(x.shape[-1], self.window)", "helper(len(x), window=window)"]
)
def test_functions_and_methods_that_get_what_the_class_was_given_speak_for_it(call: str) -> None:
    assert sorted(read(call=call)) == ["Of the helper.", "Of the method."]


@pytest.mark.parametrize(
    ("stored", "before", "call"),
    [
        ("window", "", "helper(len(x), self.window - 1)"),
        ("window + 1", "", "helper(len(x), self.window)"),
        ("window", "window = window + 1", "helper(len(x), window)"),
        ("window", "window += 1", "helper(len(x), window)"),
        ("window", "window: int = -window", "helper(len(x), window)"),
        ("window", "", "torch.helper(x)"),
        ("window", "", "(lambda x: x)(x)"),
        ("window", "", "helper"),
    ],
)
def test_functions_that_get_something_else_do_not(stored: str, before: str, call: str) -> None:
    assert read(stored, before, call=call) == ["Of the method."]


def test_functions_have_no_such_docstrings_and_long_ones_are_cut() -> None:
    source = f'def helper(x):\n    """{"a" * 5000}"""\n\nclass Own:\n    def forward(self, x):\n'
    source += "        return helper(x)\n\ndef other(x):\n    return helper(x)\n"
    helper, own, other = list_definitions(read_source(source.encode(), "py"))
    assert len(own.called_doc) == len(helper.doc) == 2000
    assert helper.called_doc == other.called_doc == ""


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
