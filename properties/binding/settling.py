"""Settle what a match leaves open: results, the mask, inputs that differ, and dropout.

Each step calls the class under a contract that claims more and keeps the claim if the answer is
exact, or if a known mistake explains it: then the claim is made, and fails with its reason.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from properties.binding.calls import (
    MASK_CONVENTIONS,
    find_mask_name,
    iter_call_forms,
    iter_role_orders,
)
from properties.binding.hypotheses import OTHER
from properties.binding.intent import expects_causality
from properties.binding.matching import RELATIVE, Observation, find_mistakes
from properties.binding.search import Match
from properties.binding.signature import Signature
from properties.binding.vocabulary import guess_role
from properties.call_form import CallForm, MaskConvention
from properties.case import Case
from properties.cases.case_tensors import draw_normal, make_parameters, make_tokens
from properties.contract import Capability, Contract, Returns
from properties.harness.harness import Harness
from properties.harness.module_adapter import construct
from properties.mistakes import dropout_diagnosis
from properties.size_rules import parse_sizes
from properties.subject import CallOptions, Subject
from properties.violation import Status, SubmissionFailed, Violation
from reference import MultiHeadResult, Parameters, multi_head_attention

C = Capability
RATE = 0.5
ELSEWHERE = "dropout_not_on_weights"
"""a mistake that is none where no statement says what is dropped, and the output is"""


@dataclass(frozen=True, slots=True)
class Settled:
    """A contract, and what was found that it does not claim."""

    contract: Contract
    remarks: tuple[str, ...] = ()

    def add(self, remark: str) -> "Settled":
        return replace(self, remarks=(*self.remarks, remark))

    def claim(self, *capabilities: Capability) -> "Settled":
        claimed = self.contract.capabilities | set(capabilities)
        return replace(self, contract=replace(self.contract, capabilities=claimed))


def settle(subject: Subject, signature: Signature, match: Match) -> Settled:
    """Return the whole contract of a matched class. Raises SubmissionFailed if its process ends."""
    settled = Settled(_intend(subject, signature, match))
    for step in (_settle_results, _settle_mask, _settle_roles, _settle_dropout, _settle_sizes):
        settled = step(_Bench(subject, signature, match, settled))
    return settled


def _intend(subject: Subject, signature: Signature, match: Match) -> Contract:
    """Return the contract with later tokens hidden, if the class is meant to hide them."""
    contract = match.contract
    if contract.has(C.CAUSAL) and signature.causal is False:
        return replace(contract, capabilities=contract.capabilities - {C.CAUSAL} | {C.FULL})
    if contract.has(C.CAUSAL):
        return contract
    adapter = construct(subject, contract, match.sizes.case, seed=1)
    tensors = adapter.module.describe_tensors()
    if not expects_causality(signature, adapter.module, tensors):
        return contract
    return replace(contract, capabilities=contract.capabilities - {C.FULL} | {C.CAUSAL})


@dataclass(frozen=True)
class _Bench:
    """A matched class, and how to call it under contracts that differ in a point."""

    subject: Subject
    signature: Signature
    match: Match
    settled: Settled
    sized: Case | None = None
    """the sizes to call it with, where not those of the match"""

    @property
    def contract(self) -> Contract:
        return self.settled.contract

    @cached_property
    def case(self) -> Case:
        return self.contract.fit(self.sized or replace(self.match.sizes.case, dropout=0.0))

    @cached_property
    def parameters(self) -> Parameters:
        return make_parameters(self.case, self.contract)

    @cached_property
    def x(self) -> Tensor:
        return make_tokens(self.case, self.contract)

    def call(
        self,
        form: CallForm,
        *inputs: Tensor,
        apart: int = 1,
        case: Case | None = None,
        training: bool = False,
        parameters: Parameters | None = None,
    ) -> tuple[Tensor, ...]:
        """Return the results for inputs in the usual form; none if the class raises."""
        contract = replace(self.contract, call_form=form)
        try:
            adapter = construct(self.subject, contract, case or self.case, seed=1)
            adapter.set(parameters or self.parameters)
            options = CallOptions(training=training, seed=1, apart=apart)
            given = [t if self.contract.has(C.BATCH) else t[0] for t in inputs[:apart]]
            outputs = adapter.module.forward([*given, *inputs[apart:]], options).outputs
        except SubmissionFailed as failure:
            if failure.status is not Status.CRASHED:
                raise
            return ()
        return tuple(t if self.contract.has(C.BATCH) else t.unsqueeze(0) for t in outputs)

    def compute(self, keep: Tensor | None = None, *others: Tensor) -> MultiHeadResult:
        """Return what the equation says, with other tokens as keys and values if they are given."""
        scale = {"keys_from": others[0], "values_from": others[-1]} if others else {}
        if keep is None and self.contract.has(C.CAUSAL):
            keep = torch.ones(self.case.tokens, self.case.tokens).tril().bool()
        return multi_head_attention(self.x, self.parameters, self.case.heads, keep, **scale)  # type: ignore[arg-type]


def is_close(got: Sequence[Tensor], wanted: Tensor, place: int = 0) -> bool:
    """Whether one of several results is that of the equation."""
    if place >= len(got) or got[place].shape != wanted.shape:
        return False
    error = (got[place].to(torch.float64) - wanted).abs().max()
    return bool(error <= RELATIVE * wanted.abs().max())


# ------------------------------------------------------------------------------------ results


def _settle_results(bench: _Bench) -> Settled:
    """Find the output and the weights among the results."""
    form, place = bench.contract.call_form, bench.match.place
    results = bench.call(replace(form, places=()), bench.x)
    exact = bench.compute().weights
    found = [
        (number, one_head)
        for number, result in enumerate(results)
        if number != place
        for one_head, wanted in ((False, exact), (True, exact.squeeze(1)))
        if is_close(results, wanted, number)
    ]
    if found:
        number, one_head = found[0]
        own = replace(form, places=(place, number), one_head=one_head)
        contract = replace(bench.contract, call_form=own, returns=Returns.OUTPUT_AND_WEIGHTS)
        return replace(bench.settled, contract=contract).claim(C.WEIGHTS)
    lone = len(results) == 1 and bench.call(form, bench.x)
    places = form.places if lone else (place,)
    contract = replace(bench.contract, call_form=replace(form, places=places))
    settled = replace(bench.settled, contract=contract)
    if len(results) < 2:
        return settled
    return settled.add("of what it returns only the output is judged")


# --------------------------------------------------------------------------------------- mask


def _settle_mask(bench: _Bench) -> Settled:
    """Find out what a mask says, in which shapes it is taken, and whether it is followed."""
    name = find_mask_name(bench.signature.call)
    if name is None or bench.contract.has(C.CAUSAL):
        return bench.settled
    form = next(f for f in iter_call_forms(bench.signature.call) if "mask" in f.inputs)
    form = replace(
        bench.contract.call_form,
        inputs=_insert_mask(bench.contract.call_form.inputs, form.inputs),
    )
    required = bench.contract.call_form.mask.required
    for convention in _iter_conventions(bench.case):
        own = replace(form, mask=replace(convention, required=required))
        if _follows(bench, own):
            return _claim_mask(bench, own)
    mistaken = _find_mistaken_mask(bench, form)
    if mistaken is not None:
        return _claim_mask(bench, mistaken)
    return bench.settled.add(f"what its argument `{name}` does is not known, and not judged")


def _insert_mask(inputs: Sequence[str], whole: Sequence[str]) -> tuple[str, ...]:
    """Return the inputs with the mask where the signature has it."""
    tokens = iter(role for role in inputs if role != "mask")
    return tuple(role if role == "mask" else next(tokens, role) for role in whole)


def _claim_mask(bench: _Bench, form: CallForm) -> Settled:
    contract = replace(bench.contract, call_form=form, call=form.inputs)
    kind = C.PADDING if form.mask.keys_only else C.MASK
    return replace(bench.settled, contract=contract).claim(kind)


def _iter_conventions(case: Case) -> Iterator[MaskConvention]:
    for axes, convention in itertools.product((None, 4, 3, 2), MASK_CONVENTIONS):
        yield replace(convention, axes=axes)
    for axes, convention in itertools.product((2, 4, 3), MASK_CONVENTIONS):
        yield replace(convention, axes=axes, keys_only=True)


def _draw_masks(bench: _Bench, convention: MaskConvention) -> Iterator[Tensor]:
    """Yield masks of all shapes that a convention allows, each of which hides something."""
    b, h, t = bench.case.batch, bench.case.heads, bench.case.tokens
    shapes: dict[int | None, list[tuple[int, ...]]] = {
        None: [(t, t), (b, h, t, t), (b, 1, 1, t)],
        4: [(1, 1, t, t), (b, h, t, t)],
        3: [(b, 1, t, t)],
        2: [(t, t)],
    }
    wanted = [(b, 1, 1, t)] if convention.keys_only else shapes[convention.axes]
    for number, shape in enumerate(wanted):
        drawn = draw_normal(replace(bench.case, seed=number + 1), "mask", *shape)
        keep = drawn < 0.4
        keep.scatter_(-1, drawn.argmin(-1, keepdim=True), True)
        yield keep


def _follows(bench: _Bench, form: CallForm) -> bool:
    """Whether masks in this form are followed, in every shape."""
    if form.mask.axes != 2 and bench.case.batch < bench.case.tokens:
        crowded = replace(bench.case, batch=bench.case.tokens + 1)
        if not _follows(replace(bench, sized=crowded), form):
            return False  # a slice for the tokens would cut the batch
    types = (torch.bool, torch.int64, torch.float32) if form.mask.dtype is None else (torch.bool,)
    return all(
        is_close(bench.call(form, bench.x, keep.to(dtype)), bench.compute(keep).output)
        for keep in _draw_masks(bench, form.mask)
        for dtype in types
    )


def _find_mistaken_mask(bench: _Bench, form: CallForm) -> CallForm | None:
    """Return a form in which a mask has no effect, or that of a known mistake."""
    for convention in (*MASK_CONVENTIONS[:4], replace(MASK_CONVENTIONS[1], axes=2, keys_only=True)):
        own = replace(form, mask=convention)
        keep = next(_draw_masks(bench, convention))
        results = bench.call(own, bench.x, keep)
        if not results:
            continue
        if is_close(results, bench.compute().output):
            return own
        stored = dict(bench.contract.to_stored(bench.parameters, bench.case))
        seen = Observation(bench.x, stored, results[:1], keep)
        if next(find_mistakes(bench.contract, bench.case, seen), None):
            return own
    return None


# -------------------------------------------------------------------------------------- roles


def _settle_roles(bench: _Bench) -> Settled:
    """Find out which input is which, where several sequences are taken."""
    form = bench.contract.call_form
    tokens = [role for role in form.inputs if role != "mask"]
    if len(tokens) < 2 or bench.contract.has(C.CAUSAL) or bench.match.mistakes:
        return bench.settled
    named = [guess_role(p.name) for p in bench.signature.call][: len(form.inputs)]
    is_said = sorted(set(named) - {"mask"}) == ["key", "query", "value"]
    orders = [tuple(named)] if is_said else list(iter_role_orders(form.inputs))
    for longer in (2, 0):
        for order in orders:
            if _follows_roles(bench, replace(form, inputs=order), longer):
                contract = replace(
                    bench.contract, call=order, call_form=replace(form, inputs=order)
                )
                settled = replace(bench.settled, contract=contract)
                return settled.claim(C.CROSS) if longer else settled
    return bench.settled.claim(C.CROSS)


def _follows_roles(bench: _Bench, form: CallForm, longer: int) -> bool:
    apart = len([role for role in form.inputs if role != "mask"])
    case = replace(bench.case, tokens=bench.case.tokens + longer)
    others = [draw_normal(replace(case, seed=s), "x", *_get_shape(case)) for s in (11, 12)]
    others = others[: apart - 1]
    results = bench.call(form, bench.x, *others, apart=apart)
    return is_close(results, bench.compute(None, *others).output)


def _get_shape(case: Case) -> tuple[int, int, int]:
    return case.batch, case.tokens, case.d_in


# ------------------------------------------------------------------------------------ dropout


def _settle_dropout(bench: _Bench) -> Settled:
    """Keep the claims about dropout only where it falls on the weights, or a mistake is known."""
    settled = bench.settled
    if not bench.contract.has(C.DROPOUT) or bench.match.inexact:
        return settled
    case = replace(bench.case, dropout=RATE)
    form = bench.contract.call_form
    calm = bench.call(form, bench.x, case=case)
    wrong_at_rest = not bench.match.mistakes and not is_close(calm, bench.compute().output)
    claims = (_drops_weights, _has_known_mistake, _drops_before_softmax)
    if wrong_at_rest or any(claim(bench, case) for claim in claims):
        return settled
    kept = settled.contract.capabilities - {C.DROPOUT}
    arguments = tuple(
        replace(a, quantity="constant", default=0.0) if a.quantity == "dropout" else a
        for a in settled.contract.arguments
    )
    contract = replace(settled.contract, capabilities=kept, arguments=arguments)
    return replace(settled, contract=contract).add(
        "its dropout does not fall on the attention weights alone, and is not judged"
    )


def _drops_weights(bench: _Bench, case: Case) -> bool:
    """Whether training drops weights: a single value that all tokens have is then kept in parts.

    Were outputs dropped, they would be nothing or all of it.
    """
    zero = {name: torch.zeros_like(t) for name, t in bench.parameters.items() if name[0] == "b"}
    first = torch.zeros_like(bench.parameters.W_v)
    first[:, 0] = 1
    mixed = {} if bench.parameters.W_o is None else {"W_o": torch.eye(case.d_out).double()}
    parameters = replace(bench.parameters, W_v=first, **mixed, **zero)
    alike = torch.zeros_like(bench.parameters.W_q)
    parameters = replace(parameters, W_q=alike)  # all weights of a token are equal
    x = bench.x.clone()
    x[..., 0] = 1
    results = bench.call(
        bench.contract.call_form, x, case=case, training=True, parameters=parameters
    )
    if not results or results[0].shape[1] != case.tokens:
        return False
    visible = torch.arange(1, case.tokens + 1) if bench.contract.has(C.CAUSAL) else case.tokens
    counts = results[0] * (torch.as_tensor(visible).view(1, -1, 1) * (1 - RATE))
    whole = bool((counts - counts.round()).abs().max() < 1e-5)
    in_parts = bool(((results[0] > 1e-6) & ((results[0] - 2).abs() > 1e-6)).any())
    heads = results[0].unflatten(-1, (case.heads, case.head_dim))
    alike_in_head = bool((heads - heads[..., :1]).abs().max() < 1e-6)
    return whole and in_parts and alike_in_head


def _has_known_mistake(bench: _Bench, case: Case) -> bool:
    harness = Harness(bench.subject, bench.contract)
    harness.contract = bench.contract
    try:
        mistake = dropout_diagnosis.diagnose_dropout(harness, "cpu")
    except (SubmissionFailed, Violation):
        return False
    elsewhere = mistake is not None and mistake.name == ELSEWHERE
    return mistake is not None and not (elsewhere and _drops_outputs(bench, case))


def _drops_before_softmax(bench: _Bench, case: Case) -> bool:
    """Whether training drops of queries, keys or scores alone: without queries nothing is lost."""
    absent = {n: torch.zeros_like(t) for n, t in bench.parameters.items() if n in ("W_q", "b_q")}
    without = replace(bench.parameters, **absent)
    form = bench.contract.call_form
    training = bench.call(form, bench.x, case=case, training=True)
    even = bench.call(form, bench.x, case=case, parameters=without)
    drawn = bench.call(form, bench.x, case=case, training=True, parameters=without)
    if not (training and even and drawn):
        return False
    return is_close(drawn, even[0]) and not is_close(training, bench.compute().output)


def _drops_outputs(bench: _Bench, case: Case) -> bool:
    """Whether training only drops numbers of the output: where no statement asks, that is right."""
    results = bench.call(bench.contract.call_form, bench.x, case=case, training=True)
    if not results:
        return False
    factors = results[0] / bench.compute().output
    dropped = factors.abs() < RELATIVE
    return bool((dropped | ((factors - 1 / (1 - RATE)).abs() < RELATIVE)).all())


# -------------------------------------------------------------------------------------- sizes


def _settle_sizes(bench: _Bench) -> Settled:
    """Leave one head out where the class then is another one: without an output layer, say."""
    one = bench.contract.fit(replace(OTHER, heads=1))
    free = bench.contract.has(C.HEADS) and one.heads == 1
    if not free or is_right_at(bench.subject, bench.contract, one):
        return bench.settled
    if not is_right_at(bench.subject, bench.contract, bench.contract.fit(OTHER)):
        return bench.settled
    rules = parse_sizes(f"{bench.contract.size_rules or ''} heads>=2")
    return replace(bench.settled, contract=bench.contract.with_sizes(rules))


def is_right_at(subject: Subject, contract: Contract, case: Case) -> bool:
    """Whether the class is exact on a case, within the bound of `properties.tolerance`."""
    harness = Harness(subject, contract)
    harness.contract = contract
    context = harness.get_context(case)
    try:
        context.assert_matches_oracle(context.answer, context.expected)
    except (Violation, SubmissionFailed):
        return False
    return True
