"""Describe an unrecognised class: the attempts to bind it, and the nearest attention."""

import itertools
import re
from dataclasses import replace

import torch
from torch import Tensor

from headcheck.properties.binding.building import construct
from headcheck.properties.binding.constructors import iter_suggested
from headcheck.properties.binding.describe import describe_attention
from headcheck.properties.binding.hypotheses import make_probe_case
from headcheck.properties.binding.matching import find_exact, find_mistakes
from headcheck.properties.binding.probe import CallProbe
from headcheck.properties.binding.search import BindingSearch
from headcheck.properties.binding.ways import ABSENT
from headcheck.properties.contracts.contract import Entry
from headcheck.properties.counting import count, join_words
from headcheck.properties.signatures.signature import SignatureParameter
from headcheck.properties.signatures.vocabulary import get_usual, guess_quantity, is_flag

FAULT = re.compile(
    r"NameError|UnboundLocalError|TypeError: '(torch.Size|Tensor)' object is not callable"
    # These are given sizes, and no tokens:
    r"|\w+Error: (?!(arange|ones|zeros|full|empty|randn?|eye|normal)\(\)).*"
    r"(unexpected keyword argument|invalid combination of arguments)"
    r"|AttributeError: ('Tensor' object|module '[\w.]+') has no attribute"
)
"""errors that no other value would avoid"""
LACKED = re.compile(r"object has no attribute '(\w+)'")
LEARNED = re.compile(r"quer|latent|seed|slot|probe|induc|pool|token", re.IGNORECASE)
"""words in the path of a table of learned queries"""
MAX_COMPARED = 4
"""the most contracts to compare a class with; the contracts that names suggest come first"""


def describe_failure(search: BindingSearch) -> str:
    """Return the attention nearest to a class, or else a description of the attempts."""
    if search.idle:
        return search.idle
    learned = next(filter(None, map(_find_learned_queries, search.probes)), "")
    if learned:
        return f"attention of learned queries, `{learned}`: not judged"
    if any("d_latent" in probe.built.constructor.quantities for probe in search.probes):
        return "latent attention, but not in the form that is judged, with queries made of tokens"
    again = next(filter(None, map(_find_layer_of_both, search.probes)), "")
    if again:
        return (
            f"attention whose output layer, `{again}`, reads the queries' tokens beside what they "
            "attend to, as Luong's of a decoder: not judged"
        )
    shared = filter(None, map(share_among_heads, search.probes))
    nearest = next(filter(None, (_name_attention(search, probe) for probe in shared)), "")
    if nearest:
        return (
            f"nearest is {nearest} whose heads share one projection; usually each head has its own"
        )
    if not search.probes:
        fault = find_fault(search)
        return f"it {fault}" if fault else _say_what_was_tried(search)
    tried = count(len(search.probes), "way")
    also = "; it writes over its input" * any(probe.overwrites for probe in search.probes)
    return (
        f"{tried} to build and call it gave an output, but no attention with its weights "
        f"gives this output{also}"
    )


def find_set_later(search: BindingSearch) -> str:
    """Return the attribute that a call lacked because its caller should have set it up."""
    lacked = (found[1] for each in search.failures for found in LACKED.finditer(each))
    return next((name for name in lacked if name in search.signature.set_later), "")


def _say_what_was_tried(search: BindingSearch) -> str:
    """Say how a class was built and called in vain, and what the user can do."""
    signature, later = search.signature, find_set_later(search)
    constructor = next(iter_suggested(signature), None)
    tried = "no way to build and call it gave an output"
    if constructor is not None and signature.entry is Entry.CLASS:
        case = make_probe_case(constructor)
        given = (f"{a.name}={a.get_value(case)!r}" for a in constructor.arguments if not a.fields)
        taken = ", ".join(p.name for p in signature.call if not p.has_default)
        tried += f", such as `{signature.name}({', '.join(given)})`, called with `{taken}`"
    if later:
        tried += f"; calls need `{later}`, which another method sets"
    unknown = [p.name for p in signature.constructor if _is_unknown(p)]
    if unknown:
        tried += f"; it is not known what is meant by {join_words([f'`{n}`' for n in unknown])}"
    return f"{tried}; to say what an argument is, add --bind, or write a contract"


def _is_unknown(parameter: SignatureParameter) -> bool:
    """Whether nothing says what a required argument of a constructor is."""
    said = parameter.quantity or guess_quantity(parameter.name) or get_usual(parameter.name)
    return not parameter.has_default and said is None and not is_flag(parameter.name)


def depends_on_earlier_calls(search: BindingSearch) -> bool:
    """Whether a module returns something else after another call than a new one does.

    False if new ones do not agree either. Raises SubmissionFailed if a process ends.
    """
    for probe in search.probes[:1]:
        new = replace(probe.form, places=())
        given = search.subject, search.signature.name, probe.built, new
        one, other = (probe.observe_other(construct(*given)) for _ in range(2))
        after = probe.observe_other(probe.module)
        if one is None or other is None or after is None or not one.is_like(other):
            return False
        return not after.is_like(one)
    return False


def _find_learned_queries(probe: CallProbe) -> str:
    """Return the path of a table with a row for each output, if outputs are not those of tokens."""
    tokens = probe.seen.x.shape[1]
    rows = {t.shape[1] for t in probe.seen.outputs if t.dim() == 3} - {tokens}
    tables = (
        path
        for path, info in probe.built.tensors.items()
        if info.kind == "parameter" and len(info.shape) > 1 and info.shape[-2] in rows
        if info.shape[-1] > 1 and (LEARNED.search(path) or not path.endswith("weight"))
    )
    return next(tables, "")


def _find_layer_of_both(probe: CallProbe) -> str:
    """Return the path of the only layer twice as wide as a token, if a call takes two sequences.

    A feed-forward has another that is as wide the other way round.
    """
    width = probe.seen.x.shape[-1]
    wide = {p: i.shape for p, i in probe.built.tensors.items() if 2 * width in i.shape[-2:]}
    taken = [role for role in probe.form.inputs if role != "mask"]
    several = len(taken) > 1 and len(wide) == 1
    found = (p for p, s in wide.items() if s == (width, 2 * width) and p.endswith(".weight"))
    return next(found, "") if several else ""


def find_fault(search: BindingSearch) -> str:
    """Return what a class raises whatever it is given, as a predicate; "" if that is not certain.

    An error that names no value and no size is its own.
    """
    if search.probes:
        return ""
    said = dict.fromkeys(search.failures)
    absent = [text.removeprefix(ABSENT) for text in said if text.startswith(ABSENT)]
    own = [f"raises {text}" for text in said if FAULT.match(text)]
    return next(iter(absent + own), "")


def share_among_heads(probe: CallProbe) -> CallProbe | None:
    """Return the probe of a call, as if every head had its own copy of a shared projection.

    None if no weight has the width of a single head.
    """
    case = probe.sizes.case
    narrow = ((case.head_dim, case.head_dim), (case.head_dim,))
    paths = [path for path, tensor in probe.seen.stored.items() if tuple(tensor.shape) in narrow]
    if case.heads == 1 or not paths:
        return None
    wide = {path: _repeat(probe.seen.stored[path], case.heads) for path in paths}
    infos = {p: replace(probe.built.tensors[p], shape=tuple(t.shape)) for p, t in wide.items()}
    built = replace(probe.built, tensors={**probe.built.tensors, **infos})
    return replace(
        probe, built=built, seen=replace(probe.seen, stored={**probe.seen.stored, **wide})
    )


def _repeat(weight: Tensor, heads: int) -> Tensor:
    """Return the weight of all heads together if each head has this weight."""
    alike = [weight] * heads
    return torch.cat(alike) if weight.dim() == 1 else torch.block_diag(*alike)


def _name_attention(search: BindingSearch, probe: CallProbe) -> str:
    """Describe the attention, perhaps with a mistake, that explains a call; "" if none does."""
    for contract, sizes in itertools.islice(search.iter_likely(probe), MAX_COMPARED):
        exact = find_exact(contract, sizes.case, probe.seen) is not None
        if exact or next(find_mistakes(contract, sizes.case, probe.seen), None):
            return describe_attention(contract)
    return ""
