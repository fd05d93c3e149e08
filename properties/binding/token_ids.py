"""Call a model that embeds its tokens itself, with numbers of tokens."""

import itertools
from dataclasses import replace

import torch

from headcheck.properties.binding.building import Built, build_all, construct, note_failure
from headcheck.properties.binding.calls import iter_forms_of
from headcheck.properties.binding.constructors import iter_assigned, iter_suggested
from headcheck.properties.binding.matching import Observation, draw_weights
from headcheck.properties.binding.probe import CallProbe
from headcheck.properties.binding.ways import Ways
from headcheck.properties.subject import CallOptions
from headcheck.properties.terms.call_form import CallForm
from headcheck.properties.violations.violation import SubmissionFailed

MAX_BUILT = 12
"""the most ways to construct a model that are tried"""
BATCH = 3
"""how many sequences a call has: with two, a result for both of two classes may be one for pairs"""
TOKENS = 3
"""how many different tokens there are: a vocabulary may be as small as any other size"""
EMBEDS = "indices"
"""in the error of an embedding that was given vectors"""


def call_with_ids(ways: Ways) -> CallProbe | None:
    """Return a call of a class with numbers of tokens, if a call with vectors asked for them.

    Raises SubmissionFailed if its process ends.
    """
    if not any(EMBEDS in failure for failure in ways.failures):
        return None
    sources = (iter_suggested, iter_assigned)
    all_built = (build_all(ways.subject, ways.signature, ways.failures, each) for each in sources)
    for built in itertools.islice(itertools.chain.from_iterable(all_built), MAX_BUILT):
        for form in iter_forms_of(ways.signature):
            probe = _try_call(ways, built, form)
            if probe is not None:
                return probe
    return None


def _try_call(ways: Ways, built: Built, form: CallForm) -> CallProbe | None:
    sizes = next(ways.iter_sizes_of(built), None)
    if sizes is None or ways.is_too_large(built):
        return None
    case, own = replace(sizes.case, batch=BATCH), replace(form, places=())
    rows = torch.arange(case.batch)[:, None] + torch.arange(case.tokens).square()
    x, weights = rows % TOKENS, draw_weights(built.tensors, case.seed)
    try:
        module = construct(ways.subject, ways.signature.name, built, own)
        module.write(weights)
        outputs = module.forward([x.clone()], CallOptions()).outputs
    except SubmissionFailed as failure:
        note_failure(failure, ways.failures)
        return None
    seen = Observation(x, weights, tuple(outputs))
    sized = replace(sizes, case=case)
    return CallProbe(built, sized, form, module, seen, batched=True, blind=False)
