"""Build a module with known mistakes and no others, to be checked like any submission.

A diagnosis says what a submission computes: pipelines, or a way in which dropout acts. This file
turns the diagnosis into a class that is built, called and trained like a submission, so that every
property can be checked on it. If this class breaks a property, the mistakes explain that failure of
the submission; all other failures have other causes.

Names, arguments and call forms differ from class to class and do not matter here. So the faulty
module has its own names and arguments, and its contract is the submission's contract in these terms
(`restate`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from headcheck.properties.contracts.contract import Argument, Capability, Contract, Entry, Returns
from headcheck.properties.contracts.parameter_mapping import Packing, ParameterMapping
from headcheck.properties.contracts.variant import find_visible
from headcheck.properties.mistakes.catalogue.dropout import on_weights
from headcheck.properties.mistakes.evaluation import get_correct_pipeline, make_attention_inputs
from headcheck.properties.mistakes.pipeline import (
    CORRECT,
    AttentionInputs,
    Dropping,
    Pipeline,
    StepOverrides,
    run_pipeline,
)
from headcheck.properties.mistakes.recognisers.recogniser import DiagnosedMistake, Pipelines
from headcheck.properties.mistakes.steps.calls import UNCHANGED, CallWrapper, Result, call_plainly
from headcheck.properties.parts import iter_weights
from headcheck.properties.parts.norms import GAINS, NormOver
from headcheck.properties.terms.call_form import USUAL, CacheConvention, CallForm
from headcheck.properties.terms.case import Case
from headcheck.reference import Parameters

NAME, SOURCE, TARGET = "Attention", "Source", "Target"
QUANTITIES = (
    "d_in", "d_out", "heads", "context_length", "bias", "dropout", "kv_heads", "window", "softcap",
    "block", "causal", "d_latent", "rope_dim",
    "d_context",
)  # fmt: skip
OWN_TERMS = frozenset({Capability.STATELESS, Capability.CONFIG})
"""capabilities about the form of a submission, which the module does not share"""
RATE = 0.5
"""the rate of additional dropout"""
DRAWS = 3
"""how many draws of wrong dropout are tried"""


@dataclass(frozen=True)
class Computation:
    """The computation of an attention, right or wrong."""

    pipelines: Pipelines
    dropping: Dropping = on_weights
    rate: float | None = None
    """the rate of dropout, if it differs from the case's"""
    skipped: int = 0
    """how many random numbers a call skips, so that dropout draws others"""
    wrapper: CallWrapper = call_plainly
    """a wrapper for further behaviour of calls"""
    backward: Pipelines = ()
    """the pipelines whose gradients the module has, if they differ from the pipelines of its
    outputs
    """

    def draw_several(self) -> "tuple[Computation, ...]":
        """Return the computation with several random draws, if its mistake is in dropout.

        It depends on chance whether such a mistake shows on a small case, and submissions draw
        other numbers than this module. A backward that is written by hand may have the same
        mistake, or be right.
        """
        draws = 1 if self.dropping is on_weights else DRAWS
        drawn = tuple(replace(self, skipped=number) for number in range(draws))
        return (*drawn, replace(self, backward=())) if self.backward else drawn


def list_computations(
    contract: Contract, diagnosed: Sequence[DiagnosedMistake]
) -> tuple[Computation, ...]:
    """Return the possible computations of a submission with these mistakes; none if unknown.

    There are several if different ways to make a mistake are indistinguishable.
    """
    ways = next((each.ways for each in diagnosed if each.ways), ())
    if ways:
        wrappers = (call_plainly, *(w for each in diagnosed for w in each.mistake.wrappers))
        apart = contract.has(Capability.RECOMPUTED)
        backward = make_correct_computation(contract).pipelines if apart else ()
        return tuple(
            Computation(way, wrapper=wrapper, backward=backward)
            for wrapper in wrappers
            for way in ways
        )
    rate = None if contract.has(Capability.DROPOUT) else RATE
    droppings = [dropping for each in diagnosed for dropping in each.mistake.droppings]
    return tuple(Computation((CORRECT,), dropping, rate) for dropping in droppings)


def make_correct_computation(contract: Contract) -> Computation:
    """Return the computation that a contract asks for."""
    outputs = 2 if contract.returns is Returns.WEIGHTS_TWICE else 1
    return Computation((get_correct_pipeline(contract),) * outputs)


def restate(contract: Contract, name: str = NAME) -> Contract:
    """Return a contract in the terms of the modules made here."""
    parts = contract.transfer
    return replace(
        contract,
        name=name,
        entry=Entry.CLASS if parts is None else Entry.TRANSFER,
        arguments=_restate_arguments(contract),
        mappings=tuple(_restate_mapping(contract, each) for each in _list_parameters(contract)),
        variables=(),
        call_form=_restate_call(contract),
        transfer=None if parts is None else (restate(parts[0], SOURCE), restate(parts[1], TARGET)),
        sizes=None,  # the cases have them already
        capabilities=contract.capabilities - OWN_TERMS,
    )


def _restate_mapping(contract: Contract, name: str) -> ParameterMapping:
    """Return where a parameter is stored, in a packing that says whose it is."""
    apart = contract.gains_by_head and contract.norm_over is NormOver.HEAD and name in GAINS
    return ParameterMapping(name, (name,), packing=Packing.STACKED if apart else Packing.ROWS)


def _restate_call(contract: Contract) -> CallForm:
    """Return the usual call form with this contract's further inputs: other tokens, or a cache."""
    cache = None if contract.call_form.cache is None else CacheConvention()
    if not contract.has(Capability.CROSS):
        return replace(USUAL, cache=cache)
    return CallForm((*(r for r in contract.call_form.inputs if r != "mask"), "mask"), cache=cache)


def _restate_arguments(contract: Contract) -> tuple[Argument, ...]:
    """Return arguments for all quantities, with their defaults in a contract."""
    known = {argument.quantity: argument for argument in contract.arguments}
    arguments = (replace(known.get(q, Argument(q, q)), name=q) for q in QUANTITIES)
    return tuple(a for a in arguments if not (contract.square and a.name == "d_in"))


def _list_parameters(contract: Contract) -> list[str]:
    names = ["W_q", "W_k", "W_v"]
    names += [b for b in ("b_q", "b_k", "b_v") if contract.stores(b) or not contract.mappings]
    names += ["W_o"] * contract.has(Capability.OUTPUT_PROJECTION)
    names += ["b_o"] * contract.has(Capability.OUTPUT_BIAS)
    return names + [weight.name for weight in iter_weights(contract)]


def make_namespace(contract: Contract, computation: Computation) -> dict[str, object]:
    """Return definitions that satisfy a restated contract, except that they compute a mistake."""
    if contract.transfer is None:
        return {contract.name: _make_class(contract, computation)}
    source, target = contract.transfer
    right = make_correct_computation(source)
    made = {SOURCE: _make_class(source, right), TARGET: _make_class(target, computation)}
    return {contract.name: _transfer, **made}


def _make_class(contract: Contract, computation: Computation) -> type["FaultyAttention"]:
    fields = {"contract": contract, "computation": computation}
    return type(contract.name, (FaultyAttention,), fields)


def _transfer(source: nn.Module, target: nn.Module) -> None:
    target.load_state_dict(source.state_dict(), strict=False)


class FaultyAttention(nn.Module):
    """Attention by a given computation, with its parameters under their canonical names."""

    contract: Contract
    computation: Computation

    def __init__(self, *values: Any, **named: Any) -> None:
        super().__init__()
        self.case = _make_case(self.contract, values, named)
        for name, shape in self.contract.get_parameter_shapes(self.case).items():
            drawn = torch.empty(shape).uniform_(-1, 1) / self.case.d_in**0.5
            self.register_parameter(name, nn.Parameter(drawn))

    def forward(self, x: Tensor, *rest: Tensor, cache: Tensor | None = None) -> Any:
        # What it keeps are the tokens themselves, so that all else is computed as without a cache.
        whole = x if cache is None else torch.cat([cache, x], dim=-2)
        result = self._attend_to(whole, *rest)
        if self.contract.call_form.cache is None or not isinstance(result, Tensor):
            return result
        return result[..., -x.shape[-2] :, :], whole

    def _attend_to(self, x: Tensor, *rest: Tensor) -> Result:
        given, count = x, sum(role != "mask" for role in self.contract.call_form.inputs)
        others, mask = rest[: count - 1], rest[count - 1] if len(rest) >= count else None

        def attend(x: Tensor, mask: Tensor | None, overrides: StepOverrides = UNCHANGED) -> Result:
            # A sequence that attends to itself still does when it has been changed.
            read = (x if other is given else other for other in others)
            return self._attend((x, *read), mask, overrides)

        return self.computation.wrapper(self, attend, x, mask)

    def _attend(
        self, tokens: Sequence[Tensor], mask: Tensor | None, overrides: StepOverrides
    ) -> Result:
        batched = self.contract.has(Capability.BATCH)
        batches = tokens if batched else [t.unsqueeze(0) for t in tokens]
        outputs = self._compute(batches, mask, overrides)
        own = outputs if batched else tuple(output[0] for output in outputs)
        return own[0] if len(own) == 1 else own

    def _compute(
        self, tokens: Sequence[Tensor], mask: Tensor | None, overrides: StepOverrides
    ) -> tuple[Tensor, ...]:
        x, *others = tokens
        stored = dict(self.named_parameters())
        parameters = Parameters(**self.contract.unpack(stored, self.case))
        visible = self._list_visible(x, mask, others)
        inputs = make_attention_inputs(self.contract, self.case, x, parameters, visible, others)
        if self.contract.returns is Returns.WEIGHTS_TWICE:
            inputs = replace(inputs, wanted=("matrix",))
        how = self.computation
        rate = self.case.dropout if how.rate is None else how.rate
        torch.rand(how.skipped)
        right = (each.override(overrides) for each in how.pipelines)
        pipelines = (how.dropping(each, rate, self.training) for each in right)
        answer = _run(pipelines, inputs)
        if not how.backward:
            return answer
        return tuple(map(_replace_gradient, answer, _run(how.backward, inputs)))

    def _list_visible(
        self, x: Tensor, mask: Tensor | None, others: Sequence[Tensor]
    ) -> Tensor | None:
        keys = others[0].shape[-2] if others else None
        return find_visible(self.contract, self.case, x.shape[-2], mask, x.device, keys)


def _run(pipelines: Iterable[Pipeline], inputs: AttentionInputs) -> tuple[Tensor, ...]:
    return tuple(t for each in pipelines for t in run_pipeline(each, inputs).answer)


def _replace_gradient(tensor: Tensor, other: Tensor) -> Tensor:
    """Return a tensor with the gradient of another one."""
    return tensor.detach() + (other - other.detach())


def _make_case(contract: Contract, values: Sequence[Any], named: Mapping[str, Any]) -> Case:
    """Return a case with the sizes and options of a module built with these arguments."""
    given: dict[str, Any] = {a.name: a.default for a in contract.arguments}
    given |= dict(zip(given, values, strict=False)) | dict(named)
    width, heads, kv_heads = given.pop("d_out"), given["heads"], given.pop("kv_heads")
    if width % heads:
        raise ValueError(f"{heads} heads do not divide a width of {width}")
    if heads % kv_heads:
        raise ValueError(f"{heads} heads cannot share {kv_heads} of keys and values")
    sizes = {"d_in": width, "tokens": given["context_length"], "head_dim": width // heads}
    return Case(**{**sizes, **given}, group=heads // kv_heads)
