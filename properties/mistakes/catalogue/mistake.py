"""The type of a mistake, and the functions by which the catalogue defines one."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import partial, reduce

from headcheck.properties.contracts.contract import Capability, Contract, NormOver, Positions
from headcheck.properties.contracts.parameter_mapping import Packing
from headcheck.properties.mistakes.pipeline import Dropping, PipelineState, StepOverrides
from headcheck.properties.mistakes.steps.calls import CallWrapper
from headcheck.properties.parts.positions import ScalingKind

Feature = Capability | Positions | NormOver
"""a feature of a contract on which it depends whether a mistake is possible"""

PACKED_WEIGHTS = ("W_q", "W_k", "W_v")
APART = (Packing.ROWS, Packing.INTERLEAVED, Packing.CONVOLUTION, Packing.IMAGE_CONVOLUTION)
"""packings that put whole projections one after the other"""
PACKED = ". One layer gives all three: the queries first, then the keys, then the values"


@dataclass(frozen=True)
class CodeMatcher:
    """Matches code patterns of a kind, such as a call of softmax, by their text."""

    kind: str
    detail: str = ""
    """a regular expression for the text; if it is empty, any text matches"""
    last: bool = False
    """whether the last match is used instead of the first"""
    only: bool = False
    """whether a match counts only if there is no other"""


@dataclass(frozen=True, eq=False)
class Mistake:
    """A mistake: its name, a sentence for the student, its code matchers, and its faulty steps."""

    name: str
    sentence: str
    """the sentence for students, in which {width} stands for the number whose root scales the
    scores, {turned} for the name of the number of rotated coordinates, and {order} for a sentence
    about the order of queries, keys and values in one layer"""
    code_matchers: tuple[CodeMatcher, ...]
    variants: tuple[StepOverrides, ...] = field(default=(), repr=False)
    """the faulty steps of each variant, the usual variant first"""
    rare: bool = False
    """whether it is too unlikely to be considered together with another mistake"""
    needs: frozenset[Feature] = frozenset()
    """features that a contract must have; without them the mistake is impossible, or not a mistake
    """
    unless: frozenset[Feature] = frozenset()
    """features that a contract must not have; with them the same code is right, or another mistake
    """
    scalings: frozenset[ScalingKind] = frozenset()
    """kinds of rotary scaling of which a contract must have one; none for any contract"""
    droppings: tuple[Dropping, ...] = field(default=(), repr=False)
    """the ways in which dropout acts with this mistake, if it is a mistake in dropout"""
    wrappers: tuple[CallWrapper, ...] = field(default=(), repr=False)
    """further ways in which calls may behave with this mistake"""

    def describe(self, contract: Contract) -> str:
        """Return the sentence in the words of an exercise."""
        several = contract.has(Capability.HEADS)
        width = "a head's width" if several else "the queries' width"
        width = "half a head's width" if contract.has(Capability.DIFFERENTIAL) else width
        latent = contract.has(Capability.BESIDE)
        width = "a whole query's width" if latent else width
        turned = "rope_dim" if latent else "head_dim"
        packed = any(m.holds == PACKED_WEIGHTS and m.packing in APART for m in contract.mappings)
        order = PACKED if packed else ""
        words = {"{width}": width, "{turned}": turned, "{order}": order}
        return reduce(lambda text, name: text.replace(name, words[name]), words, self.sentence)

    def applies_to(self, contract: Contract) -> bool:
        """Whether the mistake is possible under a contract."""
        features = contract.capabilities | {contract.positions, contract.norm_over}
        if contract.positions is Positions.ROTARY_NEIGHBOURS:
            features |= {Positions.ROTARY}  # most mistakes are the same in pairs of neighbours
        if not self.needs <= features or self.unless & features:
            return False
        scaling = contract.rotary_scaling
        return not self.scalings or (scaling is not None and scaling.kind in self.scalings)

    def simulated_by(
        self, *variants: StepOverrides, **overrides: Callable[[PipelineState], object]
    ) -> "Mistake":
        """Return the mistake with its faulty steps, as keywords or as one mapping for each variant.

        `.simulated_by(normalise=…, use=…)` overrides two steps; `.simulated_by({"use": …}, {"hide":
        …})` has two variants.
        """
        return replace(self, variants=((overrides,) if overrides else ()) + variants)

    def dropping_by(self, *droppings: Dropping) -> "Mistake":
        """Return the mistake with the ways in which dropout may then act."""
        return replace(self, droppings=droppings)

    def wrapped_by(self, *wrappers: CallWrapper) -> "Mistake":
        """Return the mistake with wrappers for further behaviour of calls."""
        return replace(self, wrappers=wrappers)


def define_mistake(
    name: str,
    sentence: str,
    code_matchers: str = "",
    *,
    rare: bool = False,
    needs: Feature | None = None,
    unless: Feature | None = None,
) -> Mistake:
    """Return a mistake without faulty steps.

    The code matchers are separated by ` | `, the most telling first: with `softmax:dim=1$ | last
    reshape`, the line that is shown is a softmax over dimension 1, or else the last reshape; with
    `only squeeze` it is the squeeze, if there is exactly one. Without matchers no line is shown.
    """
    matchers = tuple(_parse_matcher(text) for text in code_matchers.split(" | ") if text)
    return Mistake(name, sentence, matchers, (), rare, _gather(needs), _gather(unless))


def _gather(feature: Feature | None) -> frozenset[Feature]:
    return frozenset() if feature is None else frozenset({feature})


define_rare_mistake = partial(define_mistake, rare=True)


def _parse_matcher(text: str) -> CodeMatcher:
    which, _, detail = text.partition(":")
    *how, kind = which.split(" ")
    return CodeMatcher(kind, detail, last="last" in how, only="only" in how)


def exclude(feature: Feature, *group: Mistake) -> tuple[Mistake, ...]:
    """Return the same mistakes, restricted to contracts that lack a feature."""
    return tuple(replace(each, unless=each.unless | {feature}) for each in group)


def require(feature: Feature, *group: Mistake) -> tuple[Mistake, ...]:
    """Return the same mistakes, restricted to contracts that have a feature."""
    return tuple(replace(each, needs=each.needs | {feature}) for each in group)


def require_scaling(kinds: Collection[ScalingKind], *group: Mistake) -> tuple[Mistake, ...]:
    """Return the same mistakes, restricted to contracts with one of these kinds of scaling."""
    return tuple(replace(each, scalings=frozenset(kinds)) for each in group)
