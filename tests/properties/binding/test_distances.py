"""The distance from which on tokens share a learned number is found, whatever it is."""

import pytest

from tests.properties.binding.strangers import CAUSAL, SEPARATE, make, must_bind

BUCKETS = """
def find_buckets(distance):
    size = (-distance).clamp(min=0)
    share = torch.log(size.clamp(min=1).double() / 16) / math.log(FARTHEST / 16)
    far = 16 + (share * 16).long()
    return torch.where(size < 16, size, far.clamp(max=31))
"""
SOURCE = make(
    init=SEPARATE + "\nself.relative_attention_bias = nn.Embedding(32, heads)",
    scores="place = torch.arange(x.shape[1])\n"
    "bias = self.relative_attention_bias(find_buckets(place - place[:, None]))\n"
    "s = q @ k.mT + bias.permute(2, 0, 1)",
    mask=CAUSAL,
    before=BUCKETS,
)


@pytest.mark.parametrize(("farthest", "found"), [(128, 128), (64, 64), (1000, 128)])
def test_the_farthest_distance_is_found_or_else_the_usual_one(farthest: int, found: int) -> None:
    """Once headcheck failed where no usual distance was the one: 16 have numbers of their own."""
    binding = must_bind(SOURCE.replace("FARTHEST", str(farthest)))
    assert binding.contract.relative_farthest == found
