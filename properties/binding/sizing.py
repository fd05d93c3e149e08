"""Settle the sizes with which a class is judged: of its heads, tokens, outputs and sequences."""

from dataclasses import replace

from headcheck.properties.binding.bench import Bench, Settled, is_right_at
from headcheck.properties.binding.building import rename_quantities
from headcheck.properties.binding.hypotheses import OTHER
from headcheck.properties.binding.search import Match
from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.harness.module_adapter import construct
from headcheck.properties.listing.summary import select_summaries
from headcheck.properties.signatures.signature import Signature
from headcheck.properties.subject import Subject
from headcheck.properties.terms.case import Case
from headcheck.properties.terms.size_rules import parse_sizes
from headcheck.properties.violations.violation import STATED, Status, SubmissionFailed

C = Capability
ROUND_SHARES = (0.125, 0.25, 0.5, 0.75)
"""shares of each head that an author may have meant to rotate"""
MULTIPLES = (1, 2, 4, 8, 16, 32)
"""the numbers of which a width may have to be a multiple"""
SIZED_APART = {"heads", "head_dim", "d_out"}
"""what the arguments of a class say whose heads may be of any width"""
OF_TORCH = "it_equals_torch_s_multi_head_attention"
"""the property whose heads are as wide as the model divided by their number"""


def settle_share(bench: Bench) -> Settled:
    """Judge only one width of heads, unless the same share rotates in heads of other widths.

    The class may rotate a fixed number of coordinates, or a share that was rounded to an even
    number.
    """
    contract, width = bench.contract, bench.match.sizes.case.head_dim
    if contract.rotary_share == 1 or bench.match.mistakes:
        return bench.settled
    wider = contract.fit(replace(OTHER, head_dim=2 * width))
    if contract.rotary_share in ROUND_SHARES and is_right_at(bench.subject, contract, wider):
        return bench.settled
    fixed = contract.with_sizes(parse_sizes(f"head_dim={width}"))
    return replace(bench.settled, contract=fixed).add(
        f"how many coordinates are rotated is known only for heads of {width}: judged with these"
    )


def settle_width(bench: Bench) -> Settled:
    """Keep to widths with which a class can be built.

    Those of heads are multiples of its norm's groups, or even, as for sines beside cosines.
    """
    for multiple in MULTIPLES:
        rules = f"{bench.contract.size_rules or ''} head_dim%{multiple}"
        contract = (
            bench.contract if multiple == 1 else bench.contract.with_sizes(parse_sizes(rules))
        )
        case = contract.fit(replace(OTHER, d_in=3 * multiple, heads=3, head_dim=multiple))
        if _can_be_built(bench.subject, contract, case):
            return replace(bench.settled, contract=contract)
    return bench.settled


def _can_be_built(subject: Subject, contract: Contract, case: Case) -> bool:
    try:
        construct(subject, contract, case, seed=1)
    except SubmissionFailed as failure:
        if failure.status is not Status.CRASHED:
            raise
        return False
    return True


def settle_sizes(bench: Bench) -> Settled:
    """Exclude a single head if it makes the class differ, for example without an output layer."""
    one = bench.contract.fit(replace(OTHER, heads=1))
    free = bench.contract.has(C.HEADS) and one.heads == 1
    if not free or is_right_at(bench.subject, bench.contract, one):
        return bench.settled
    if not is_right_at(bench.subject, bench.contract, bench.contract.fit(OTHER)):
        return bench.settled
    rules = parse_sizes(f"{bench.contract.size_rules or ''} heads>=2")
    return replace(bench.settled, contract=bench.contract.with_sizes(rules))


def settle_output_width(bench: Bench) -> Settled:
    """Judge heads of any width if a class takes their width and number, and that of its tokens."""
    contract = bench.contract
    every = [a for argument in contract.arguments for a in (argument, *argument.fields)]
    offered = {a.quantity for a in every}
    if not contract.square or not contract.stores("W_o") or not offered >= SIZED_APART:
        return bench.settled
    form = replace(contract.call_form, wide_output=True)
    named = {a.name: "d_in" for a in every if a.quantity == "d_out"}
    arguments = rename_quantities(contract.arguments, named)
    asked = [each.name for each in select_summaries(contract) if each.name == OF_TORCH]
    wide = replace(
        contract,
        square=False,
        arguments=arguments,
        call_form=form,
        waived=(*contract.waived, *asked),
    )
    apart = replace(bench, settled=replace(bench.settled, contract=wide), sized=OTHER)
    fits = apart.call(form, apart.x) and _has_shapes(apart)
    return apart.settled if fits else bench.settled


def _has_shapes(bench: Bench) -> bool:
    """Whether the parameters of a class that can be constructed have the contract's shapes."""
    adapter = construct(bench.subject, bench.contract, bench.case, seed=1)
    has = {path: info.shape for path, info in adapter.module.describe_tensors().items()}
    wanted = bench.contract.get_parameter_shapes(bench.case)
    return all(tuple(has.get(path, ())) == shape for path, shape in wanted.items())


def settle_lengths(bench: Bench) -> Settled:
    """Exclude a longest length, or a window, of one if no module can be constructed for it."""
    contract = bench.contract
    one = replace(OTHER, tokens=1, context_length=1), replace(OTHER, tokens=1, window=1)
    kinds = (C.CONTEXT, "context_length"), (C.WINDOW, "window")
    for (capability, name), case in zip(kinds, one, strict=True):
        shortest = contract.fit(case)
        free = contract.has(capability) and getattr(shortest, name) == 1
        if free and not _can_be_built(bench.subject, contract, shortest):
            contract = contract.with_sizes(parse_sizes(f"{contract.size_rules or ''} {name}>=2"))
    return replace(bench.settled, contract=contract)


def find_free_widths(
    subject: Subject, signature: Signature, match: Match, settled: Settled
) -> Contract | None:
    """Return the contract for input and output of different widths if a class breaks at those.

    None if it has no argument for each width, or demands equal ones itself: then it promises none.
    """
    contract = settled.contract
    quantities = {a.quantity for whole in contract.arguments for a in whole.fields or (whole,)}
    if not contract.square or not {"d_in", "d_out"} <= quantities:
        return None
    free = replace(contract, square=False)
    bench = Bench(subject, signature, match, replace(settled, contract=free), OTHER)
    return None if STATED.match(bench.find_error(free.call_form, bench.x)) else free
