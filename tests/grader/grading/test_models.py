"""Models around attention are called as they are used: with tokens, images and caches."""

import pytest

from tests.grader.grading.test_layers import OWN, observe
from tests.properties.binding.strangers import CAUSAL, FUSED, THIRDS, make

pytestmark = pytest.mark.filterwarnings("ignore")

OF_IMAGES = """
class Vision(nn.Module):
    def __init__(self, dim, heads, image_size=16, patch=8, channels=3, num_classes=2):
        super().__init__()
        self.cut = nn.Conv2d(channels, dim, patch, patch)
        self.places = nn.Parameter(torch.randn((image_size // patch) ** 2, dim))
        self.layers = nn.ModuleList(Attention(dim, heads) for _ in range(2))
        self.head = nn.Linear(dim, num_classes)

    def forward(self, images):
        x = self.cut(images).flatten(2).mT + self.places
        for layer in self.layers:
            {step}
        return self.head(x.mean(1))
"""


def test_a_model_of_images_is_called_with_images() -> None:
    right = observe(OWN + OF_IMAGES.format(step="x = x + layer(x)"), "Vision")
    assert right.attends and right.breaches == ()
    lost = OWN + OF_IMAGES.format(step="y = x + layer(x)").replace("x.mean(1)", "y.mean(1)")
    [breach] = observe(lost, "Vision").breaches
    assert breach.got == "what `layers.0` computes does not reach the output"


@pytest.mark.parametrize("side", [24, 28])
def test_images_have_the_side_that_an_argument_says_or_a_usual_one(side: int) -> None:
    source = OWN + OF_IMAGES.format(step="x = x + layer(x)")
    said = source.replace("image_size=16", f"image_size={side}").replace("patch=8", "patch=4")
    assert observe(said, "Vision").attends
    if side == 28:
        fixed = said.replace("image_size=28, ", "").replace("image_size", "28")
        assert observe(fixed, "Vision").attends


CACHING = make(
    name="Attention",
    init=FUSED,
    call="x, past=None",
    project=THIRDS + "if past is not None:\n"
    "    k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)",
    mask=CAUSAL.replace("triu(1)", "triu(1 + k.shape[2] - q.shape[2])"),
    result="o, (k, v)",
)
CACHED = f"""
{CACHING}

class Model(nn.Module):
    def __init__(self, vocab_size, dim, heads, max_len):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocab_size, dim), nn.Embedding(max_len, dim)
        self.layer, self.head = Attention(dim, heads), nn.Linear(dim, vocab_size)

    def forward(self, ids, past=None):
        begin = 0 if past is None else past[0].shape[2]
        x = self.tokens(ids) + self.places(torch.arange(begin, begin + ids.shape[1]))
        y, past = self.layer(x, past)
        return self.head(x + y), past
"""


@pytest.mark.parametrize(
    ("old", "new", "broken"),
    [
        ("begin = 0 if", "begin = 0 if", []),
        ("past[0].shape[2]\n        x", "0\n        x", ["calls_with_a_cache_continue"]),
        (
            "y, past = self.layer(x, past)",
            "y, past = self.layer(x)",
            ["calls_with_a_cache_continue"],
        ),
        ("return self.head(x + y), past", "return self.head(x + y)", []),
        (
            "        if past is not None:\n",
            "        if past == ():\n            past = k[:, :, :0], v[:, :, :0]\n"
            "        if past is not None:\n",
            [],
        ),
    ],
    ids=["right", "positions begin at zero", "not handed on", "returns none", "begins with ()"],
)
def test_calls_of_a_model_with_a_cache_continue(old: str, new: str, broken: list[str]) -> None:
    source = CACHED.replace(old, new)
    assert source != CACHED or old == new
    if "past == ()" in source:  # then None is for calls that keep nothing
        source = source.replace("return o, (k, v)", "return o, past and (k, v)")
        source = source.replace("0 if past is None else", "0 if not past else")
    layer = observe(source, "Model")
    assert [each.claim.name for each in layer.breaches] == broken
    assert (layer.claims[-1].name == "calls_with_a_cache_continue") is ("y), past" in source)
