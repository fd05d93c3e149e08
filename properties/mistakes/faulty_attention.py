"""Attention with known mistakes and nothing else wrong, as a module to be checked like any other.

A diagnosis says what a submission computes: pipelines, or a way in which dropout acts. Here that
becomes a module, which is built, called and trained as a submission is, so that every property can
be checked on it. What it breaks follows from the mistakes; what it does not break has other causes.

Names, arguments and call forms differ from class to class and mean nothing here. So the module has
those of its own, and its contract is the submission's in these terms (`restate`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from properties.call_form import USUAL
from properties.case import Case
from properties.contract import Argument, Capability, Contract, Entry, Returns
from properties.mistakes.diagnosis import (
    DiagnosedMistake,
    get_correct_pipeline,
    make_attention_inputs,
)
from properties.mistakes.pipeline import Dropping, Pipeline, run_pipeline
from properties.mistakes.steps.dropout import on_weights
from properties.parameter_mapping import ParameterMapping
from reference import Parameters, causal_mask, to_bool_mask

NAME = "Attention"
QUANTITIES = ("d_in", "heads", "head_dim", "context_length", "bias", "dropout")
OWN_TERMS = frozenset({Capability.STATELESS, Capability.TRANSFER, Capability.CONFIG})
"""what is about the form of a submission, which the module does not share"""


@dataclass(frozen=True)
class Computation:
    """What an attention computes, right or wrong."""

    pipelines: tuple[Pipeline, ...]
    """one for all outputs, or one for each"""
    dropping: Dropping = on_weights


def list_computations(diagnosed: Sequence[DiagnosedMistake]) -> tuple[Computation, ...]:
    """Return what a submission with these mistakes may compute, and nothing if that is not known.

    There are several where a mistake can be made in several ways that its diagnosis does not tell
    apart.
    """
    for each in diagnosed:
        if each.pipelines:
            return (Computation(each.pipelines),)
    droppings = [dropping for each in diagnosed for dropping in each.mistake.droppings]
    return tuple(Computation((Pipeline(),), dropping) for dropping in droppings)


def make_correct_computation(contract: Contract) -> Computation:
    """Return what a contract asks for."""
    outputs = 2 if contract.returns is Returns.WEIGHTS_TWICE else 1
    return Computation((get_correct_pipeline(contract),) * outputs)


def restate(contract: Contract) -> Contract:
    """Return what a contract asks for in the terms of the modules made here."""
    biases = ("b_q", "b_k", "b_v")
    names = ["W_q", "W_k", "W_v"]
    names += [name for name in biases if contract.stores(name) or not contract.mappings]
    names += ["W_o"] * contract.has(Capability.OUTPUT_PROJECTION)
    names += ["b_o"] * contract.has(Capability.OUTPUT_BIAS)
    return replace(
        contract,
        name=NAME,
        entry=Entry.CLASS,
        arguments=tuple(Argument(quantity, quantity) for quantity in QUANTITIES),
        mappings=tuple(ParameterMapping(name, (name,)) for name in names),
        variables=(),
        call_form=USUAL,
        transfer=None,
        sizes=None,  # the cases have them already
        capabilities=contract.capabilities - OWN_TERMS,
    )


def make_module_class(contract: Contract, computation: Computation) -> type["FaultyAttention"]:
    """Return a class of modules that keep a restated contract but for what they compute."""
    return type(NAME, (FaultyAttention,), {"contract": contract, "computation": computation})


class FaultyAttention(nn.Module):
    """Attention by a given computation, with its parameters under their canonical names."""

    contract: Contract
    computation: Computation

    def __init__(
        self,
        d_in: int,
        heads: int,
        head_dim: int,
        context_length: int,
        bias: bool,
        dropout: float,
    ) -> None:
        super().__init__()
        sizes = {"d_in": d_in, "heads": heads, "head_dim": head_dim}
        self.case = Case(**sizes, context_length=context_length, bias=bias, dropout=dropout)
        for name, shape in self.contract.get_parameter_shapes(self.case).items():
            drawn = torch.empty(shape).uniform_(-1, 1) / d_in**0.5
            self.register_parameter(name, nn.Parameter(drawn))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor | tuple[Tensor, ...]:
        batched = self.contract.has(Capability.BATCH)
        outputs = self._compute(x if batched else x.unsqueeze(0), mask)
        own = outputs if batched else tuple(output[0] for output in outputs)
        return own[0] if len(own) == 1 else own

    def _compute(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, ...]:
        parameters = Parameters(**dict(self.named_parameters()))
        visible = self._list_visible(x, mask)
        inputs = make_attention_inputs(self.contract, self.case, x, parameters, visible)
        if self.contract.returns is Returns.WEIGHTS_TWICE:
            inputs = replace(inputs, wanted=("matrix",))
        put, rate = self.computation.dropping, self.case.dropout
        pipelines = (put(each, rate, self.training) for each in self.computation.pipelines)
        return tuple(t for each in pipelines for t in run_pipeline(each, inputs).answer)

    def _list_visible(self, x: Tensor, mask: Tensor | None) -> Tensor | None:
        if self.contract.has(Capability.CAUSAL):
            return causal_mask(x.shape[-2])
        return None if mask is None else to_bool_mask(mask)
