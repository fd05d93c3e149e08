"""Call a model as it is used: with numbers of tokens that it embeds, or images that it cuts."""

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from headcheck.properties.binding.building import Built, build_all, construct, note_failure
from headcheck.properties.binding.calls import iter_forms_of
from headcheck.properties.binding.constructors import iter_assigned, iter_suggested
from headcheck.properties.binding.matching import Observation, draw_weights
from headcheck.properties.binding.probe import CallProbe
from headcheck.properties.binding.ways import Ways
from headcheck.properties.subject import CallOptions
from headcheck.properties.terms.call_form import CallForm
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import SubmissionFailed

Draw = Callable[[Ways, Built, Case], Iterator[Tensor]]
MAX_BUILT = 12
"""the most ways to construct a model that are tried"""
BATCH = 3
"""how many sequences a call has: with two, a result for both of two classes may be one for pairs"""
TOKENS = 3
"""how many different tokens there are: a vocabulary may be as small as any other size"""
EMBEDS = "indices"
"""in the error of an embedding that was given vectors"""
CONVOLVES = re.compile(r"\d channels, but got|input to conv2d|expected 4, got 3")
"""in the error of a model of images that was given vectors"""
IMAGE = re.compile(r"im(g|age)s?(_?(size|side|width|dim|resolution))?|resolution", re.IGNORECASE)
"""names of arguments for the side of images"""
SIDES = (32, 28, 64, 224)
"""the sides of images to try if no argument says one"""


def call_model(ways: Ways) -> CallProbe | None:
    """Return a call of a class with what earlier calls with vectors asked for.

    Raises SubmissionFailed if its process ends.
    """
    said = tuple(ways.failures)
    if any(EMBEDS in failure for failure in said):
        return next(_iter_calls(ways, _draw_ids), None)
    if any(map(CONVOLVES.search, said)):
        return next(_iter_calls(ways, _draw_images), None)
    return None


def _iter_calls(ways: Ways, draw: Draw) -> Iterator[CallProbe]:
    sources = (iter_suggested, iter_assigned)
    all_built = (build_all(ways.subject, ways.signature, ways.failures, each) for each in sources)
    for built in itertools.islice(itertools.chain.from_iterable(all_built), MAX_BUILT):
        for form in iter_forms_of(ways.signature):
            yield from _iter_answers(ways, built, form, draw)


def _iter_answers(ways: Ways, built: Built, form: CallForm, draw: Draw) -> Iterator[CallProbe]:
    sizes = next(ways.iter_sizes_of(built), None)
    if sizes is None or ways.is_too_large(built):
        return
    case, own = replace(sizes.case, batch=BATCH), replace(form, places=())
    weights = draw_weights(built.tensors, case.seed)
    for x in draw(ways, built, case):
        try:
            module = construct(ways.subject, ways.signature.name, built, own)
            module.write(weights)
            outputs = module.forward([x.clone()], CallOptions()).outputs
        except SubmissionFailed as failure:
            note_failure(failure, ways.failures)
            continue
        seen, sized = Observation(x, weights, tuple(outputs)), replace(sizes, case=case)
        yield CallProbe(built, sized, form, module, seen, batched=True, blind=False)
        return


def _draw_ids(_: Ways, __: Built, case: Case) -> Iterator[Tensor]:
    rows = torch.arange(case.batch)[:, None] + torch.arange(case.tokens).square()
    yield rows % TOKENS


def _draw_images(ways: Ways, built: Built, case: Case) -> Iterator[Tensor]:
    """Yield images with the sides that arguments say, and with usual ones."""
    kernels = [info.shape for info in built.tensors.values() if len(info.shape) == 4]
    channels = kernels[0][1] if kernels else 3
    said = [p.default for p in ways.signature.constructor if IMAGE.fullmatch(p.name)]
    generator = torch.Generator().manual_seed(case.seed)
    for side in dict.fromkeys((*(n for n in said if isinstance(n, int) and n), *SIDES)):
        shape = case.batch, channels, side, side
        yield torch.randn(shape, generator=generator, dtype=torch.float64)
