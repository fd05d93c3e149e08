"""Describe a class that is not recognised: what its code does wrong, or what was tried."""

import re
from dataclasses import replace

from headcheck.properties.binding.building import construct
from headcheck.properties.binding.constructors import iter_suggested
from headcheck.properties.binding.hypotheses import make_probe_case
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


def describe_failure(search: BindingSearch) -> str:
    """Return why a class is not recognised, or else what was tried."""
    if search.idle:
        return search.idle
    if any("d_latent" in probe.built.constructor.quantities for probe in search.probes):
        return "latent attention, but not in the form that is judged, with queries made of tokens"
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
