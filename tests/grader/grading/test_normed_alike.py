"""Queries, keys and values of the same tokens are normed alike."""

import pytest

from tests.grader.grading.test_layers import observe

pytestmark = pytest.mark.filterwarnings("ignore")

APART = """
class Attend(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.to_q, self.to_k, self.to_v = (nn.Linear(dim, dim) for _ in range(3))

    def forward(self, q, k, v):
        q, k, v = self.to_q(q), self.to_k(k), self.to_v(v)
        return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v

class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.attend, self.norm, self.other = Attend(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x):
        n = self.norm(x)
        return self.other(x) + self.attend({given})
"""


@pytest.mark.parametrize(
    ("given", "got"),
    [
        ("n, n, n", ""),
        ("x, n, n", ""),  # keys may be merged and normed
        ("n, x, x", "the tokens are normed for the queries, and not for the keys"),
        ("n, n, x", "the tokens are normed for the keys, and not for the values"),
        ("n, x, n", "the tokens are normed for the queries, and not for the keys"),
        ("n + 1, n + 1, n", ""),
        ("n, self.other(x), self.other(x)", ""),
    ],
)
def test_tokens_are_normed_alike(given: str, got: str) -> None:
    found = [each.got for each in observe(APART.format(given=given), "Layer").breaches]
    assert found == ([got] if got else [])


def test_tokens_of_two_sequences_may_be_normed_apart() -> None:
    source = APART.format(given="n, memory, memory").replace("self, x):", "self, x, memory):")
    assert not observe(source, "Layer").breaches
    source = APART.format(given="n, self.other(memory), memory")
    [found] = observe(source.replace("self, x):", "self, x, memory):"), "Layer").breaches
    assert found.got == "the tokens are normed for the keys, and not for the values"
