"""Check whether the parts of a contract fit together."""

import difflib
import keyword
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace

from headcheck.properties.contracts.contract import (
    CONSTANT,
    Argument,
    Capability,
    Contract,
    Entry,
    Returns,
)
from headcheck.properties.contracts.implied_capabilities import (
    IMPLIED,
    ROLES,
    TOKENS,
    attends,
    holds,
    takes,
    takes_roles,
)
from headcheck.properties.contracts.parameter_mapping import ParameterMapping
from headcheck.properties.listing.summary import select_summaries
from headcheck.properties.parts import PARTS, WEIGHTS
from headcheck.properties.parts import QUANTITIES as OF_PARTS
from headcheck.properties.parts import find_problems as find_problems_of_parts
from headcheck.properties.parts.part import Problem as Problem
from headcheck.properties.terms.call_form import USUAL, CacheConvention, Given, Polarity

C = Capability

QUANTITIES = (
    "d_in", "d_out", "heads", "head_dim", "context_length", "dropout", "bias", "config", "causal",
    "tokens", "side", "sides", "temperature", "scale",
    *(each.taken for each in OF_PARTS.values()), CONSTANT,
)  # fmt: skip
"""the quantities that an argument of a constructor may have"""
SIZES = ("batch", "tokens", "context_length", "d_in", "heads", "head_dim")
"""the sizes that a contract may fix; d_out is heads times head_dim"""
PASSED = frozenset({"block", "causal", "window", "softcap", CONSTANT})
"""further quantities that a function of query, key and value may take in a call"""
INPUTS: Mapping[Entry, tuple[str, ...]] = {
    Entry.CLASS: (*TOKENS, "mask"),
    Entry.BUILDER: (*TOKENS, "mask"),
    Entry.FUNCTION: ("x", "queries", "keys", *ROLES, "mask"),
}
"""the inputs that a call may have, for each kind of entry point; a function also takes its
parameters
"""
PREREQUISITES = ("it_attends", "it_equals_the_equation")
"""properties that must hold for any points; an exercise uses the first of these that it has"""
PLACED = {*Given} - {Given.NONE, Given.ZERO, Given.FALSE, Given.TRUE}
"""what depends on the positions of tokens"""
MASK_DTYPES = ("bool", "uint8", "int32", "int64", "float32", "float64")
PATH = re.compile(r"(?:\w+|\{head\})(?:\.(?:\w+|\{head\}))*")


NEEDED: Mapping[Capability, str] = {
    C.MASK: 'write call = ["x", "mask"]',
    C.DROPOUT: "an argument must take dropout",
    C.CONFIG: "an argument must take config",
    C.CAUSAL_OPTION: "an argument must take causal",
    C.LOGSUMEXP: 'write returns = "output_and_logsumexp"',
    C.EMPTY_ROWS: 'write empty_row = "finite" or "zeros" in [call_form.mask]',
    C.WEIGHTS_OPTION: "write [call_form.without_weights]",
    C.WEIGHTS: 'write returns = "output_and_weights"',
    C.OUTPUT_PROJECTION: "a parameter must hold W_o",
    C.OUTPUT_BIAS: "a parameter must hold b_o",
    C.CENTRED_NORMS: 'write token_norm = "layer"',
    C.TRANSFER: 'write entry = "transfer"',
    **{capability: text for part in PARTS for capability, text in part.needed.items()},
}
"""What to write in a contract that lists a capability without the key on which it depends."""


def find_problems(contract: Contract) -> Iterator[Problem]:
    """Yield the contradictions in a contract as it was written."""
    if not _is_name(contract.name):
        yield ("name",), None, f"{contract.name!r} is not a valid name of a class or a function"
    for check in (_check_capabilities, _check_arguments, _check_parameters, _check_holders):
        yield from check(contract)
    yield from _check_sizes(contract)
    yield from find_problems_of_parts(contract)
    yield from _check_call(contract)


def find_wrongly_waived(contract: Contract) -> Iterator[Problem]:
    """Yield waived properties that do not exist, or on which points depend."""
    applying = {each.name for each in select_summaries(contract)} if contract.waived else set()
    for name in contract.waived:
        if name in PREREQUISITES:
            text = f"without {name!r} nothing is judged: leave it out of `waived`"
            yield ("waived",), name, text
        elif name not in applying:
            text = f"{name!r} is not a check of this exercise: see docs/properties.md"
            yield ("waived",), name, text


def suggest(name: object, known: Collection[str]) -> str:
    """Return the nearest of these names, or all of them, as the end of a message."""
    close = difflib.get_close_matches(str(name), known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"there are {', '.join(sorted(known))}"


def _takes_blocks_of_roles(contract: Contract) -> bool:
    return takes_roles(contract) and takes("block")(contract)


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


POSSIBLE: Mapping[Capability, tuple[Callable[[Contract], bool], str]] = {
    C.RECOMPUTED: (
        lambda c: _takes_blocks_of_roles(c) and C.CROSS in c.capabilities,
        "`recomputed` needs a `cross` function of query, key and value that takes `block`",
    ),
    C.BIAS_MASK: (
        lambda c: c.call_form.mask.polarity is Polarity.ADDED and IMPLIED[C.TAKES_MASK](c),
        '`bias_mask` needs a mask that is added: write polarity = "added"',
    ),
    C.SEALED: (IMPLIED[C.TAKES_MASK], "`sealed` needs a mask: add one to `call`"),
    C.FORGETFUL: (
        lambda c: IMPLIED[C.HANDED_CACHE](c) and takes("window")(c),
        "`forgetful` needs a cache that is passed on, and a window",
    ),
    C.LINEAR_MEMORY: (
        IMPLIED[C.FEATURES],
        "`linear_memory` needs a `feature_map`: a softmax needs all scores of a token",
    ),
    C.BIAS: (
        lambda c: holds("b_q")(c) or holds("b_v")(c),
        "`bias` needs parameters that hold b_q, b_k and b_v",
    ),
}
"""listed capabilities, each with the condition under which it is possible, and what to do"""


def _check_capabilities(contract: Contract) -> Iterator[Problem]:
    listed = contract.capabilities
    if {C.CAUSAL, C.FULL} <= listed:
        text = "`causal` hides later tokens, which `full` shows to every token: leave one out"
        yield ("capabilities",), "full", text
    if not attends(contract) and holds("W_q")(contract):
        text = "list `causal` if later tokens are hidden, or `full` if every token sees every other"
        yield ("capabilities",), None, text
    for each, needed in NEEDED.items():
        if each in listed and not IMPLIED[each](contract):
            name = each.name.lower()
            yield ("capabilities",), name, f"`{name}` says that there is such a thing: {needed}"
    for each, (is_possible, text) in POSSIBLE.items():
        if each in listed and not is_possible(contract):
            yield ("capabilities",), each.name.lower(), text


def _check_arguments(contract: Contract) -> Iterator[Problem]:
    passed = takes_roles(contract) and {a.quantity for a in contract.arguments} <= PASSED
    if contract.arguments and contract.entry in (Entry.FUNCTION, Entry.TRANSFER) and not passed:
        text = "these are of a constructor; what a function takes is its `call`"
        yield ("arguments",), None, text
    if takes("block")(contract) and not _takes_blocks_of_roles(contract):
        yield ("arguments",), None, "only a function of query, key and value takes a block's size"
    full_roles = takes_roles(contract) and C.FULL in contract.capabilities
    if takes("causal")(contract) and not full_roles:
        text = (
            "only a `full` function of query, key and value takes whether later tokens are hidden"
        )
        yield ("arguments",), None, text
    for argument in contract.arguments:
        yield from _check_argument(argument, ("arguments", argument.name))
        for field in argument.fields:
            keys = ("arguments", argument.name, "fields", field.name)
            yield from _check_argument(field, keys)


def _check_argument(argument: Argument, keys: tuple[str, ...]) -> Iterator[Problem]:
    if not _is_name(argument.name):
        yield keys, None, f"{argument.name!r} is not a valid name of an argument"
    if argument.quantity not in QUANTITIES:
        nearest = suggest(argument.quantity, QUANTITIES)
        yield keys, None, f"there is no quantity {argument.quantity!r}; {nearest}"
    if argument.quantity == CONSTANT and argument.default is None:
        yield keys, None, "a constant needs its `default`, which is what is always passed"
    if argument.fields and argument.quantity != "config":
        yield keys, None, 'only an argument that takes "config" has fields'
    if argument.optional and argument.default is None:
        yield keys, None, "an optional argument needs its `default`"


def _check_parameters(contract: Contract) -> Iterator[Problem]:
    for mapping in contract.mappings:
        yield from _check_parameter(mapping)
        if contract.entry is Entry.FUNCTION and mapping.path not in contract.call:
            text = f"a function gets its weights as arguments: list {mapping.path!r} in `call`, too"
            yield ("parameters", mapping.path), None, text


def _check_parameter(mapping: ParameterMapping) -> Iterator[Problem]:
    keys = ("parameters", mapping.path)
    if not PATH.fullmatch(mapping.path):
        text = (
            "is not a path of attributes such as 'W_query.weight' or 'heads.{head}.W_query.weight'"
        )
        yield keys, None, f"{mapping.path!r} {text}"
    for name in mapping.holds:
        if name not in WEIGHTS:
            yield keys, name, f"there is no parameter {name!r}; {suggest(name, WEIGHTS)}"
        elif WEIGHTS[name].is_per_head and not _is_stored_alone(mapping, name):
            yield keys, None, f"{name} are one number for each head: write the name alone"
    if len({name[0] for name in mapping.holds}) != 1:
        yield keys, None, "a parameter holds weights, or biases: at least one, and never both"


def _is_stored_alone(mapping: ParameterMapping, name: str) -> bool:
    """Return whether a tensor holds nothing else, in a packing that makes sense for it."""
    own = ParameterMapping(mapping.path, (name,))
    return any(mapping == replace(own, packing=each) for each in WEIGHTS[name].packings)


def _check_holders(contract: Contract) -> Iterator[Problem]:
    """Check that every parameter is stored once, together with the parameters that belong to it."""
    places: dict[str, str] = {}
    for mapping in contract.mappings:
        for name in mapping.holds:
            if name in places:
                text = f"{name} is stored in {places[name]!r} already"
                yield ("parameters", mapping.path), None, text
            places[name] = mapping.path
    if not places and contract.entry in (Entry.CLASS, Entry.BUILDER):
        text = "there is no [parameters]: say where W_q, W_k and W_v are stored"
        yield ("parameters",), None, text
    for name, weight in WEIGHTS.items():
        missing = [each for each in weight.needs if each not in places]
        if missing and name in places:
            yield ("parameters",), None, f"no parameter holds {', '.join(missing)}: say where it is"


def _check_sizes(contract: Contract) -> Iterator[Problem]:
    for name, value in (contract.sizes or {}).items():
        if name not in SIZES:
            yield ("sizes", name), None, f"there is no size {name!r}; {suggest(name, SIZES)}"
        if value < 1:
            yield ("sizes", name), None, f"must be at least 1, not {value}"


def _check_call(contract: Contract) -> Iterator[Problem]:
    if (contract.entry is Entry.TRANSFER) != (contract.transfer is not None):
        keys = ("transfer",) if contract.transfer else ("entry",)
        text = (
            'entry = "transfer" and the tables [transfer.source] and [transfer.target] go together'
        )
        yield keys, None, text
    elif contract.entry is Entry.TRANSFER:
        if len(contract.call) != 2:
            yield ("call",), None, "a transfer is called with two modules: name them, source first"
    else:
        yield from _check_inputs(contract)
        yield from _check_form(contract)


def _check_form(contract: Contract) -> Iterator[Problem]:
    mask, places = contract.call_form.mask, contract.call_form.places
    if mask.axes not in (None, 2, 3, 4):
        yield ("call_form", "mask", "axes"), None, f"a mask has 2, 3 or 4 axes, not {mask.axes}"
    if mask.dtype is not None and mask.dtype not in MASK_DTYPES:
        nearest = suggest(mask.dtype, MASK_DTYPES)
        text = f"no mask has the type {mask.dtype!r}; {nearest}"
        yield ("call_form", "mask", "dtype"), None, text
    if places is not None and (not places or min(places) < 0):
        text = "are counted from 0, first the output and then the weights"
        yield ("call_form", "places"), None, text
    for table in ("without_weights", "given"):
        for name in getattr(contract.call_form, table) or ():
            if not _is_name(name):
                text = f"{name!r} is not a valid name of an argument"
                yield ("call_form", table, name), None, text
    cache = contract.call_form.cache
    placed = {*(contract.call_form.given or {}).values()} & PLACED
    if cache is not None and not cache.is_kept and placed:
        text = "a call that continues a sequence begins at another position: leave this out"
        yield ("call_form", "given"), None, text
    if cache is not None and mask.required:
        text = "a module with a cache can be called without a mask: leave this out"
        yield ("call_form", "mask", "required"), None, text
    yield from _check_joining(contract)
    if cache is not None:
        yield from _check_cache(contract, cache)


def _check_joining(contract: Contract) -> Iterator[Problem]:
    joins = contract.call_form.joins_queries
    if joins and ({*contract.call} != {"query", "context"} or contract.has(C.CAUSAL)):
        text = 'queries join a context that nothing hides: write call = ["query", "context"]'
        yield ("call_form", "joins_queries"), None, text


def _check_cache(contract: Contract, cache: CacheConvention) -> Iterator[Problem]:
    keys = ("call_form", "cache")
    if not contract.has(C.CAUSAL) or contract.entry is Entry.FUNCTION:
        text = "only a causal module continues a sequence"
        if contract.has(C.CROSS):
            text += "; kept keys of another sequence are tried by a module that calls twice"
        yield keys, None, text
    named = [("argument", cache.argument), ("reset", cache.reset)]
    named += [("reset_takes", name) for name in cache.reset_takes or ()]
    for key, name in named:
        if name and not _is_name(name):
            yield (*keys, key), name, f"{name!r} is no name"
    if cache.place < 1:
        yield (*keys, "place"), None, "is counted from 0, which is the output"


def _check_inputs(contract: Contract) -> Iterator[Problem]:
    own = {m.path for m in contract.mappings} if contract.entry is Entry.FUNCTION else set()
    known = {*INPUTS[contract.entry], *own}
    for name in contract.call:
        if name not in known:
            yield ("call",), name, f"a call cannot pass {name!r}; {suggest(name, known)}"
    if contract.call_form not in (USUAL, replace(contract.call_form, inputs=contract.call)):
        yield ("call_form", "inputs"), None, "these are not those of `call`: leave them out"
    if not contract.call:
        yield ("call",), None, "a call passes something"
    if set(contract.call) & set(ROLES) and contract.entry is Entry.FUNCTION:
        yield from _check_roles(contract)
    elif contract.returns is Returns.OUTPUT_AND_LOGSUMEXP:
        text = "only a function of query, key and value returns a log-sum-exp"
        yield ("returns",), "output_and_logsumexp", text


def _check_roles(contract: Contract) -> Iterator[Problem]:
    if contract.call not in (ROLES, (*ROLES, "mask")) or contract.mappings:
        text = "a function of a query must take query, key and value, perhaps a mask, nothing else"
        yield ("call",), None, text
    if contract.returns is Returns.OUTPUT_AND_LOGSUMEXP:
        yield from _check_logsumexp(contract)
    if not contract.square:
        yield ("square",), None, "queries, keys and values have no layers: write true"


def _check_logsumexp(contract: Contract) -> Iterator[Problem]:
    """Check that a log-sum-exp is one of plain scores of all keys."""
    hidden = contract.has(C.CAUSAL) or "mask" in contract.call or takes("window")(contract)
    if hidden:
        yield ("returns",), None, "a log-sum-exp covers all keys: list `full`, without a mask"
