"""What a call of a class that uses attention shows, beside the attention itself."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headcheck.grader.grading.open_mode.continued_layers import judge_continued
from headcheck.grader.grading.open_mode.layer_claims import Claim, JudgedClaim
from headcheck.grader.grading.open_mode.residuals import find_lost_tokens
from headcheck.grader.grading.tracing.calls import trace_probe
from headcheck.grader.grading.tracing.graph import Flow
from headcheck.grader.grading.tracing.positions import Position
from headcheck.grader.sandbox.worker.calling import MAX_OUTPUTS
from headcheck.properties.binding.building import build_all
from headcheck.properties.binding.constructors import iter_suggested
from headcheck.properties.binding.probe import CallProbe
from headcheck.properties.binding.ways import Ways
from headcheck.properties.counting import count, join_words
from headcheck.properties.signatures.signature import Signature
from headcheck.properties.subject import Subject
from headcheck.properties.terms.call_form import TokenAxes
from headcheck.properties.terms.group import PropertyGroup

MAX_STEPS = 2000
"""a trace with as many steps may have been cut, and tells nothing of what a result rests on"""
OF_TORCH = "multi_head_attention_forward"
SHARING = re.compile(r"shar(e|ing)|\btie|same layer|albert|universal|recurrent", re.IGNORECASE)
"""words in docstrings, and in names of models, that say that layers share their weights"""
NORMS_FIRST = re.compile(r"pre[-_ ]?(layer[-_ ]?)?(norm|ln)|norms?[-_ ]first", re.IGNORECASE)
"""words of a layer that norms its tokens inside its parts"""
G = PropertyGroup


USED = Claim("every_part_has_an_effect", "Every part of the layer has an effect.", G.VALUES)
OWN = Claim("each_layer_has_its_own_weights", "Each layer of a list has its own weights.", G.VALUES)
APART = Claim(
    "sequences_do_not_mix",
    "A sequence depends neither on the others of the batch nor on its place.",
    G.BATCH,
)
HIDDEN = Claim(
    "later_tokens_stay_hidden",
    "Tokens that all attention hides have no effect on earlier tokens.",
    G.MASK,
)
ADDED = Claim(
    "parts_add_to_their_tokens",
    "Where a layer has residuals, each of its parts adds to the tokens that it is given.",
    G.VALUES,
)
REPEATED = Claim(
    "calls_repeat", "In evaluation mode, two calls with the same tokens give the same.", G.PURITY
)
FINITE = Claim("results_are_finite", "Results are finite.", G.PRECISION)
EFFECT = "what every part computes goes into the output"
CLAIMS = (USED, OWN, ADDED, APART, HIDDEN, REPEATED, FINITE)


@dataclass(frozen=True, slots=True)
class ObservedLayer:
    """What a call of a class that uses attention has shown."""

    attends: tuple[Position | None, ...]
    """the lines on which it computes softmaxes or fused attention; None outside of the file"""
    unread: tuple[str, ...]
    """the paths of the parameters that the call does not read"""
    breaches: tuple[JudgedClaim, ...]
    """the claims that do not hold"""
    compares_tokens: bool
    """whether one of its softmaxes is of products of what tokens give, as in attention"""
    remarks: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = CLAIMS
    """what is claimed of it: of a layer that takes a mask or a cache, what these do, too"""


def observe_layer(
    subject: Subject, probes: Iterable[CallProbe], signature: Signature
) -> ObservedLayer | None:
    """Return what a call of a class shows; None if it uses no attention, or cannot be traced.

    Raises SubmissionFailed if its process ends.
    """
    probe = _choose(probes)
    flow = None if probe is None else trace_probe(probe)
    if probe is None or flow is None or len(flow.steps) >= MAX_STEPS:
        return None
    if not flow.softmaxes:
        return None
    read = {*flow.parameters.values()}
    breaches = tuple(filter(None, (check(probe, flow, signature) for check in CHECKS)))
    continued = judge_continued(subject, signature, probe)
    further = () if continued is None else (continued,)
    breaches += tuple(each for each in further if not each.holds)
    return ObservedLayer(
        tuple(None if flow.kinds[n] == OF_TORCH else flow.get_position(n) for n in flow.softmaxes),
        tuple(p for p, i in probe.built.tensors.items() if i.kind == "parameter" and p not in read),
        breaches,
        bool(flow.attending),
        tuple(_iter_remarks(probe, mixes=any(each.claim is APART for each in breaches))),
        (*CLAIMS, *(each.claim for each in further)),
    )


def _choose(probes: Iterable[CallProbe]) -> CallProbe | None:
    """Return the first call; if it requires a mask, the first one whose mask does not hide all."""
    first = None
    for probe in probes:
        first = first or probe
        if not first.form.mask.required or all(map(_is_finite, probe.seen.outputs)):
            return probe
    return first


def call_and_observe(subject: Subject, signature: Signature) -> ObservedLayer | None:
    """Return what the first call of a class shows that returns; None as `observe_layer` does."""
    ways = Ways(subject, signature)
    every = build_all(subject, signature, ways.failures, iter_suggested)
    called = (probe for built in every for probe in ways.iter_probes(built))
    return observe_layer(subject, called, signature)


def _iter_remarks(probe: CallProbe, *, mixes: bool) -> Iterator[str]:
    if probe.overwrites:
        yield "its calls write over the tokens that they are given"
    sure = probe.form.axes is not TokenAxes.FRAMES
    if sure and not mixes and _reads_tokens_first(probe):
        yield "it reads `(tokens, batch, width)`: if the batch comes first, this is a mistake"


# ------------------------------------------------------------------ what a call and its trace show


def _find_without_effect(probe: CallProbe, flow: Flow, _: Signature) -> JudgedClaim | None:
    """Find parts whose results reach no result of the call, and which change none."""
    if len(flow.returned) >= MAX_OUTPUTS:
        return None  # there may be more, which are not seen
    dropped = {path: n for n, path in flow.parameters.items() if n not in flow.reached}
    parts = {path.rpartition(".")[0] or path: n for path, n in dropped.items()}
    idle = {p: n for p, n in parts.items() if probe.ignores(p if p in dropped else f"{p}.")}
    if not idle:
        return None
    used = [use for n in idle.values() for use in flow.uses[n]]
    given = {n for use in used for n in flow.steps[use].sources if flow.uses[n] != [use]}
    instead = {each for n in given for each in flow.uses[n]} & flow.reached
    lines = {positions[-1] for n in (*used, *instead) if (positions := flow.list_around(n))}
    named = _name_parts(idle)
    got = f"what {named} compute{'' if ' and ' in named else 's'} does not reach the output"
    return JudgedClaim(USED, EFFECT, got, lines=tuple(sorted(lines)))


def _name_parts(paths: Iterable[str]) -> str:
    """Name layers by the beginnings of paths, up to the first number; of many, the first."""
    first, *others = sorted({re.sub(r"(\.\d+)\..*", r"\1", path) for path in paths})
    more = [count(len(others), "other part")] if len(others) > 2 else [f"`{o}`" for o in others]
    return join_words([f"`{first}`", *more])


def _find_shared(_: CallProbe, flow: Flow, signature: Signature) -> JudgedClaim | None:
    """Find layers of a list that are one layer."""
    if SHARING.search(f"{signature.name} {signature.doc}"):
        return None
    same = [pair for pair in flow.shared if _are_of_one_list(*(each.path for each in pair))]
    if not same:
        return None
    one, other = same[0]
    got, lines = _name_parts([one.path, other.path]), sorted({*one.lines, *other.lines})
    return JudgedClaim(OWN, "several layers", f"{got} are one layer", lines=tuple(lines))


def _are_of_one_list(one: str, other: str) -> bool:
    """Whether two paths differ only in a number."""
    parts = zip(one.split("."), other.split("."), strict=False)
    differ = [pair for pair in parts if pair[0] != pair[1]]
    return len(differ) == 1 and all(part.isdigit() for part in differ[0])


def _find_lost(_: CallProbe, flow: Flow, signature: Signature) -> JudgedClaim | None:
    """Find parts that take the place of their tokens in a layer with residuals."""
    said = NORMS_FIRST.search(f"{signature.name} {signature.doc}") is not None
    found = find_lost_tokens(flow, says_norms_first=said)
    if found is None:
        return None
    got, step = found
    lines = tuple(flow.list_around(step)[-1:])
    return JudgedClaim(ADDED, "each part adds to the tokens that it is given", got, lines=lines)


def _find_mixed(probe: CallProbe, _: Flow, signature: Signature) -> JudgedClaim | None:
    """Find sequences that depend on others, whichever of two axes is the batch, if none is said."""
    x, outputs = probe.seen.x, probe.seen.outputs
    sure = probe.batched and probe.form.axes is not TokenAxes.FRAMES  # which of four are tokens?
    if not sure or not _keep_rows(outputs, x, 0) or probe.observe(x.flip(0)) is None:
        return None
    said = signature.batch_first
    if _are_apart(probe, 0) or (not said and _are_apart(probe, 1)):
        return None
    expected = "the output of a sequence is the same in every batch"
    expected += f", which comes first: “{said}”" if said else ""
    return JudgedClaim(APART, expected, "it changes with the others, or with its place")


def _are_apart(probe: CallProbe, axis: int) -> bool:
    """Whether outputs depend on no other tokens along an axis, nor on their places there."""
    first, others = slice(0, 1), slice(1, None)
    turned = [t.flip(axis) for t in _list_outputs(probe, probe.seen.x.flip(axis), axis)]
    return (
        _are_close(turned, _keep_rows(probe.seen.outputs, probe.seen.x, axis))
        and _is_untouched(probe, axis, first, others)
        and _is_untouched(probe, axis, others, first)
    )


def _reads_tokens_first(probe: CallProbe) -> bool:
    return _are_apart(probe, 1) and not _are_apart(probe, 0)


def _is_untouched(probe: CallProbe, axis: int, kept: slice, turned: slice) -> bool:
    """Whether a part of the output stays the same if other tokens are turned around.

    A number added to all of a token would not show behind a norm.
    """
    changed = probe.seen.x.clone()
    rows = changed.movedim(axis, 0)
    rows[turned] = rows[turned].flip(-1)
    before = _keep_rows(probe.seen.outputs, changed, axis)
    pairs = before, _list_outputs(probe, changed, axis)
    return _are_close(*([t.movedim(axis, 0)[kept] for t in each] for each in pairs))


def _list_outputs(probe: CallProbe, x: Tensor, axis: int) -> list[Tensor]:
    """Return what a call gives for other tokens; none if it raises."""
    again = probe.observe(x)
    return [] if again is None else _keep_rows(again.outputs, x, axis)


def _keep_rows(outputs: Sequence[Tensor], x: Tensor, axis: int) -> list[Tensor]:
    """Return the outputs with a row for each token; along the first axis, those of pooled tokens.

    Others, such as caches, may have another axis first, or compare sequences with each other.
    """
    whole = [t for t in outputs if t.shape[:2] == x.shape[:2]]
    pooled = (t for t in outputs if t.dim() == 2 and t.shape[0] == len(x) != t.shape[1])
    return whole or ([] if axis else list(pooled))


def _are_close(some: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    """Whether there are tensors, and they equal others."""
    pairs = list(zip(some, others, strict=False))
    return bool(pairs) and all(a.shape == b.shape and torch.allclose(a, b) for a, b in pairs)


def _find_leak(probe: CallProbe, flow: Flow, _: Signature) -> JudgedClaim | None:
    """Find later tokens that change earlier outputs, though all attention hides them.

    Where what they hold changes nothing, it must change nothing either that they are there.
    """
    if probe.form.axes is TokenAxes.FRAMES:
        return None  # which of four axes are the tokens?
    axis = 0 if _reads_tokens_first(probe) else 1
    tokens = probe.seen.x.shape[axis]
    if not _keep_rows(probe.seen.outputs, probe.seen.x, 1):
        return None  # tokens are pooled
    hides = all(_hides_later(flow, n, tokens) for n in flow.softmaxes)
    if _is_untouched(probe, axis, slice(0, tokens - 1), slice(tokens - 1, None)):
        said, leaks = "is left out", not _begins_alike(probe, axis)
    else:
        said, leaks = "changes", hides
    expected = f"what earlier tokens give is the same when the last token {said}"
    return JudgedClaim(HIDDEN, expected, "it changes") if leaks else None


def _begins_alike(probe: CallProbe, axis: int) -> bool:
    """Whether a call for all tokens but the last gives what these give with it, or raises."""
    x = probe.seen.x if axis else probe.seen.x.transpose(0, 1)  # there are more of these
    shorter = x.movedim(axis, 0)[:-1].movedim(0, axis)
    begun = [t.movedim(axis, 0) for t in _list_outputs(probe, shorter, 1)]
    whole = [t.movedim(axis, 0)[:-1] for t in _list_outputs(probe, x, 1)]
    return not begun or _are_close(begun, whole)


def _hides_later(flow: Flow, number: int, tokens: int) -> bool:
    recorded = flow.values.get(number)
    if recorded is None or recorded.shape[-2:] != (tokens, tokens):
        return False
    weights = recorded.values.reshape(-1, tokens, tokens)
    return not bool(weights.triu(1).any()) and bool(weights.isfinite().all())


def _find_unsteady(probe: CallProbe, _: Flow, __: Signature) -> JudgedClaim | None:
    """Find calls that differ, because of random numbers or of what is kept."""
    again = [probe.observe(probe.seen.x, seed) for seed in (1, 2)]
    if all(each is None or each.is_like(probe.seen) for each in again):
        return None
    return JudgedClaim(REPEATED, "two calls with the same tokens give the same", "they differ")


def _find_infinite(probe: CallProbe, _: Flow, __: Signature) -> JudgedClaim | None:
    if all(_is_finite(t) for t in probe.seen.outputs):
        return None
    return JudgedClaim(FINITE, "finite numbers", "NaN or infinity, for a few ordinary tokens")


def _is_finite(tensor: Tensor) -> bool:
    return bool(tensor.isfinite().all())


Check = Callable[[CallProbe, Flow, Signature], JudgedClaim | None]
CHECKS: tuple[Check, ...] = (
    _find_without_effect,
    _find_shared,
    _find_lost,
    _find_mixed,
    _find_leak,
    _find_unsteady,
    _find_infinite,
)
