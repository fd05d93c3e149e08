"""Whether what attention and feed-forwards give is added to the tokens that they are given.

In a layer with residuals, tokens pass through sums and norms, and each part adds to them. A part
whose result takes the place of its tokens, or a sum that the next one does not start from, loses
them. A layer without any residual is not judged: not every layer needs one.

Sources: He et al. 2016, "Deep Residual Learning for Image Recognition", section 3.1
(arXiv:1512.03385); Vaswani et al. 2017, section 3.1 (arXiv:1706.03762), for norms after the sums;
Xiong et al. 2020, "On Layer Normalization in the Transformer Architecture", section 3
(arXiv:2002.04745), for norms before the parts.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from headcheck.grader.grading.tracing.graph import Flow, walk
from headcheck.grader.grading.tracing.operations import (
    ACTIVATIONS,
    NEUTRAL,
    NORMING,
    PRODUCTS,
    SOFTMAXES,
    Action,
)

RECURRENT = re.compile(r"_?(gru|lstm|rnn_\w+?)(_cell)?")
"""functions that carry a state from token to token: what is added to it is no residual"""
REPLACED = "what {} gives takes the place of its tokens"
APART = "no later sum starts from this one: it reaches them through a feed-forward, or as queries"
NORMED = "normed tokens are added to, and the tokens before this norm are lost"


@dataclass(frozen=True, slots=True)
class Residual:
    """A sum of tokens with what a part makes of them."""

    step: int
    kept: int
    """the tokens"""
    added: int
    """what is added to them"""


def find_lost_tokens(flow: Flow, *, says_norms_first: bool) -> tuple[str, int] | None:
    """Return what loses its tokens, with the step; None if nothing does, or nothing is added.

    A layer may say that its norms come first, inside its parts.
    """
    stream = _Stream(flow, says_norms_first)
    recurrent = any(RECURRENT.fullmatch(step.kind) for step in flow.steps)
    if recurrent or not stream.residuals:
        return None
    lost = stream.iter_unadded_attention(), stream.iter_unadded_ends(), stream.iter_sums_apart()
    return next(chain(*lost, stream.iter_added_after_norms()), None)


@dataclass(frozen=True, eq=False)
class _Stream:
    """How the tokens of a layer pass through its trace."""

    flow: Flow
    says_norms_first: bool

    @cached_property
    def reached(self) -> set[int]:
        """The steps that rest on an input, and on which the results rest."""
        return self.flow.from_tokens & self.flow.reached

    @cached_property
    def softmaxes(self) -> list[int]:
        """The steps with which tokens attend to tokens."""
        return [n for n in self.flow.attending if n in self.reached]

    @cached_property
    def residuals(self) -> list[Residual]:
        sums = (n for n in sorted(self.reached) if self.flow.does[n] is Action.SUM)
        return [each for n in sums if (each := self._read_residual(n)) is not None]

    def _list_sources(self, number: int) -> list[int]:
        step = self.flow.steps[number]
        sources = step.sources[:1] if step.kind.endswith("_as") else step.sources  # others' shapes
        return [n for n in sources if n in self.reached]

    def _list_wide(self, number: int) -> list[int]:
        """Return the sources with several numbers for each token: no mean, and no root of one."""
        return [n for n in self._list_sources(number) if self.flow.steps[n].shape[-1:] != (1,)]

    def _keeps_tokens(self, number: int) -> bool:
        """Whether a step gives the tokens it is given, or sums or norms of them."""
        if self.flow.does[number] is Action.FACTOR:
            return len(self._list_wide(number)) == 1
        return self.flow.does[number] in NEUTRAL | NORMING | {Action.SUM}

    def _walk(self, start: int, passes: Callable[[int], bool]) -> set[int]:
        """Return a step, and what it is made of by steps that pass."""
        return walk([start], lambda n: self._list_sources(n) if passes(n) else ())

    def _read_residual(self, step: int) -> Residual | None:
        sources = self._list_sources(step)
        if len(sources) != 2 or len({self.flow.steps[n].shape for n in (step, *sources)}) > 1:
            return None
        for kept, added in (sources, sources[::-1]):
            inside = self.flow.walk_back([added]) & self.reached
            begun = self._walk(kept, self._keeps_tokens) & inside
            made = self.flow.walk_on(begun, inside) - self.flow.walk_back(begun)
            if any(self.flow.does[n] in PRODUCTS for n in made):
                return Residual(step, kept, added)
        return None

    def iter_unadded_attention(self) -> Iterator[tuple[str, int]]:
        """Yield attention whose result is what later parts add to, and is added to nothing."""
        axes = {*self.flow.steps[self.flow.inputs[0]].shape[:2]}  # in any order
        for softmax in self.softmaxes:
            around = (r for r in self.residuals if self._rests_on(r.added, softmax))
            is_added = any(not self._rests_on(r.kept, softmax) for r in around)
            for residual in self.residuals if not is_added else ():
                for end in self._walk(residual.kept, self._keeps_tokens):
                    alike = {*self.flow.steps[end].shape[:2]} == axes
                    if alike and self._is_end_of(end, softmax):
                        yield REPLACED.format("attention"), end

    def _rests_on(self, number: int, other: int) -> bool:
        return other in self.flow.walk_back([number])

    def _is_end_of(self, end: int, softmax: int) -> bool:
        """Whether a step is attention, or its output layer."""
        return self.flow.does[end] in PRODUCTS and softmax in self._walk(end, self._is_linear)

    def _is_linear(self, number: int) -> bool:
        linear = {Action.LINEAR, Action.PRODUCT, Action.FACTOR}
        return self.flow.does[number] in NEUTRAL | linear

    def iter_unadded_ends(self) -> Iterator[tuple[str, int]]:
        """Yield the feed-forward of a block whose result is all that the block gives."""
        entered, first = self.flow.steps[self.flow.inputs[0]], self.flow.returned[0]
        same = len(entered.shape) == 3 and self.flow.steps[first].shape == entered.shape
        if not same or len(self.softmaxes) > 1 or first not in self.reached:
            return
        last = {r.step for r in self.residuals}
        trunk = self._walk(first, self._keeps_tokens)
        for end in trunk if not trunk & last else ():
            sums = last & self._walk(end, self._is_in_feed_forward)
            inside = self.flow.walk_on(sums) & self.flow.walk_back([end])
            if self.flow.does[end] in PRODUCTS and any(map(self._is_activation, inside)):
                yield REPLACED.format("a feed-forward"), end

    def _is_activation(self, number: int) -> bool:
        return self.flow.does[number] in ACTIVATIONS

    def _is_in_feed_forward(self, number: int) -> bool:
        return self._keeps_tokens(number) or self.flow.does[number] in ACTIVATIONS | PRODUCTS

    def iter_sums_apart(self) -> Iterator[tuple[str, int]]:
        """Yield sums that later sums rest on, and that reach none with their own numbers.

        Later sums of another shape are of other tokens, of which there are fewer, or wider ones.
        """
        for residual in self.residuals:
            shape = self.flow.steps[residual.step].shape
            alike = {r.step for r in self.residuals if self.flow.steps[r.step].shape == shape}
            later = alike & (self.flow.walk_on([residual.step]) - {residual.step})
            if later and not later & self._walk_on_linearly(residual.step):
                yield APART, residual.step

    def _walk_on_linearly(self, start: int) -> set[int]:
        """Return what a step goes into, not as queries or keys, nor through a feed-forward."""

        def follow(at: tuple[int, bool]) -> Iterator[tuple[int, bool]]:
            number, multiplied = at
            for use in self.flow.uses[number]:
                if use in self.reached and not self._ends(use, number, multiplied=multiplied):
                    yield use, multiplied or self.flow.does[use] in PRODUCTS

        return {number for number, _ in walk([(start, False)], follow)} - {start}

    def _ends(self, use: int, number: int, *, multiplied: bool) -> bool:
        does = self.flow.does[use]
        if does is Action.KERNEL:
            sources = self._list_sources(use)
            return len(sources) > 1 and number == sources[0]
        if does in SOFTMAXES:
            return True
        gated = does is Action.FACTOR and len(self._list_wide(use)) > 1
        return multiplied and (does in ACTIVATIONS or gated)

    def iter_added_after_norms(self) -> Iterator[tuple[str, int]]:
        """Yield sums with normed tokens in a layer of which other norms are passed by."""
        norms = {n for n in self.reached if self._is_norm(n)}
        passed_by = {n for n in norms if any(self._passes_by(r, n) for r in self.residuals)}
        for residual in self.residuals if passed_by or self.says_norms_first else ():
            for norm in norms & self._walk(residual.kept, self._is_moved):
                inner = norms & self.flow.walk_back([residual.added]) - {norm}
                between = {n for n in inner if self._rests_on(n, norm)}
                if not between and (passed_by or self._is_given(norm)):
                    yield NORMED, residual.step

    def _passes_by(self, residual: Residual, norm: int) -> bool:
        """Whether tokens are added that a norm in the part has been given."""
        normed = self._walk(residual.kept, self._is_moved) & {*self._list_sources(norm)}
        return bool(normed) and self._rests_on(residual.added, norm)

    def _is_norm(self, number: int) -> bool:
        """Whether a step norms tokens: a function that does, or a product with one over a root."""
        does, sources = self.flow.does[number], self._list_sources(number)
        narrow = {*sources} - {*self._list_wide(number)}
        divides = does is Action.FACTOR and len(sources) == 2 and len(narrow) == 1
        return divides or does is Action.NORM

    def _is_given(self, norm: int) -> bool:
        """Whether a norm is given the tokens of the layer."""
        before = self._walk(norm, lambda n: self._is_moved(n) or self._is_norm(n))
        return self.flow.inputs[0] in before

    def _is_moved(self, number: int) -> bool:
        """Whether a step moves tokens, or applies a gain or a shift."""
        alone = len(self._list_sources(number)) == 1
        shifts = {Action.FACTOR, Action.SUM} if alone else ()
        return self.flow.does[number] in NEUTRAL.union(shifts)
