"""Ways to construct a class: which argument takes which quantity."""

import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from headcheck.properties.contracts.contract import CONSTANT, MADE, Argument, Entry
from headcheck.properties.signatures.signature import Literal, Signature, SignatureParameter
from headcheck.properties.signatures.vocabulary import (
    LARGEST_BATCH,
    SMALL,
    get_usual,
    guess_quantity,
    is_flag,
)
from headcheck.properties.terms.call_form import CallForm, TokenAxes

RESOLUTION = re.compile(
    r"(\w+_)?res(olution)?|(img|image|feat(ure)?|map|input|grid)_?(size|shape|hw)|hw"
)
"""names of arguments for the height and the width of an image that is cut into windows"""
FUNCTION_AXES = (TokenAxes.HEADS_FIRST, TokenAxes.HEADS_SECOND, TokenAxes.BATCH_FIRST)
"""the axes of tokens that a function may take"""
SIZES = (
    "d_in", "d_context", "d_out", "heads", "kv_heads", "head_dim", "context_length", "d_latent",
    "rope_dim",
)  # fmt: skip
"""the quantities that are sizes"""
GUESSES = ("d_out", "heads", "context_length", "head_dim", "d_in", "dropout", "kv_heads")
"""the quantities to try for an argument with an unknown name, the most frequent first"""
MAX_ASSIGNMENTS = 240
MAX_OPEN = 6
"""the most arguments to guess: a class with more is not attention, or the search takes too long"""
SCALES = ("scale", "temperature")
"""what an argument for the scale of scores may be: a factor, or a divisor"""
RELATIVE = re.compile(r"rel(ative)?_(\w+_)?(bias|table)")
"""names of options for a part that a class must then have"""
GROUPS = re.compile(r"((num|n|norm|gn)_?)*groups?")
"""names of arguments for the groups of heads that share keys, or those of a norm"""
OF_QUERIES = re.compile(r"q(uer(y|ies))?_?(dim|size|width|features)|(d_?|dim_?)q(uery)?")
"""names of arguments for the width of what queries are made of, beside that of a context"""


@dataclass(frozen=True, slots=True)
class Constructor:
    """The arguments of a constructor, and whether the widths of input and output are equal."""

    arguments: tuple[Argument, ...]
    square: bool
    variables: tuple[Argument, ...] = ()
    """variables of the submission that are set before it is constructed"""
    inner: int | None = None
    """the width of all heads together, if only one width is possible"""
    entry: Entry = Entry.CLASS
    axes: TokenAxes = TokenAxes.BATCH_FIRST
    """the axes of a function's tokens, which may be cut into heads"""
    cleared: tuple[str, ...] = ()
    """the paths of tensors that keep what earlier calls computed"""
    is_lazy: bool = False
    """whether layers take the width of their input from a first call"""

    @property
    def quantities(self) -> frozenset[str]:
        """The quantities of the arguments, including the fields of a config."""
        fields = (field for a in self.arguments for field in a.fields)
        said = frozenset(a.quantity for a in (*self.arguments, *fields, *self.variables))
        return said if not self.axes.are_cut else said | {"heads"}

    @property
    def is_windowed(self) -> bool:
        """Whether images may be cut into windows: the side of one is an argument."""
        return "side" in self.quantities

    def adapt(self, form: CallForm) -> CallForm:
        """Return the call form of what is constructed: its axes, and what precedes its calls."""
        form = replace(form, is_lazy=True) if self.is_lazy else form
        form = replace(form, cleared=self.cleared) if self.cleared else form
        return replace(form, axes=self.axes) if self.axes.are_cut else form


def iter_suggested(signature: Signature) -> Iterator[Constructor]:
    """Yield the ways to construct a class that the names of its arguments suggest.

    The first ways also set variables of the submission whose names suggest sizes; later ways do
    not.
    """
    if signature.entry is Entry.FUNCTION:
        plain = Constructor((), square=True, entry=Entry.FUNCTION)
        yield from (replace(plain, axes=axes) for axes in FUNCTION_AXES)
        return
    if signature.makers:
        yield from dict.fromkeys(_iter_with_object(signature.constructor))
        return
    passed = _list_passed(signature.constructor)
    variables = _list_variables(signature)
    if variables:
        together = _resolve_widths([*passed, *variables])
        yield from (_split(each, len(passed)) for each in dict.fromkeys(together))
    larger = _list_passed(signature.constructor, optional=True)
    together = itertools.chain(_resolve_widths(passed), _resolve_widths(larger))
    yield from dict.fromkeys(together)
    optional = {p.name for p in signature.constructor if p.has_default}
    rest = [a for a in passed if a.name not in optional or not _may_mislead(a)]
    if rest != passed:
        yield from _resolve_widths(rest)


def _may_mislead(argument: Argument) -> bool:
    """Whether an optional argument may be a config of the submission, or the groups of a norm."""
    return argument.quantity == "config" or GROUPS.fullmatch(argument.name.lower()) is not None


def _iter_with_object(parameters: Sequence[SignatureParameter]) -> Iterator[Constructor]:
    """Yield ways to construct a class that is given one object, by what may make this.

    If this takes a width, it is that of a head, or else that of all heads together.
    """
    taking, *others = [parameter for parameter in parameters if parameter.makers]
    if others:
        return
    outer = _list_passed([parameter for parameter in parameters if parameter is not taking])
    for maker, width in itertools.product(taking.makers, ("head_dim", "d_out")):
        taken = _list_passed(maker.constructor)
        inner = [replace(a, quantity=width) if a.quantity == "width" else a for a in taken]
        for each in _resolve_widths([*outer, *inner]):
            fields = each.arguments[len(outer) :]
            made = Argument(taking.name, MADE, default=maker.name, fields=fields)
            yield replace(each, arguments=(made, *each.arguments[: len(outer)]))


def iter_of_one_length(signature: Signature) -> Iterator[Constructor]:
    """Yield ways to construct a class that takes sequences of one length only.

    Before its longest length, the argument may say the side, or the sides, of a window. A class of
    images of one size is given images of one window.
    """
    for constructor in iter_suggested(_say_resolution(signature)):
        for sides in ("side", "sides"):
            own = replace(
                constructor,
                arguments=tuple(_name_sides(a, sides) for a in constructor.arguments),
                variables=tuple(_name_sides(a, sides) for a in constructor.variables),
            )
            if own != constructor:
                yield own
    yield from iter_suggested(signature)


def _say_resolution(signature: Signature) -> Signature:
    """Return the signature with the quantity of the height and the width of an image."""
    own = tuple(
        replace(p, quantity="sides") if RESOLUTION.fullmatch(p.name) and not p.has_default else p
        for p in signature.constructor
    )
    return replace(signature, constructor=own)


def _name_sides(argument: Argument, sides: str) -> Argument:
    """Return an argument whose longest length is one of the sides of a window, or both."""
    if argument.quantity == "context_length":
        return replace(argument, quantity=sides)
    return replace(argument, fields=tuple(_name_sides(field, sides) for field in argument.fields))


def iter_assigned(signature: Signature) -> Iterator[Constructor]:
    """Yield every way to construct a class, whatever the names of its arguments say.

    Arguments whose names say nothing are varied first.
    """
    if signature.entry is Entry.FUNCTION or signature.makers:
        return
    passed = _list_passed(signature.constructor)
    if len(passed) == 1:
        yield Constructor((replace(passed[0], quantity="config"),), square=True)
    said = {p.name for p in signature.constructor if p.quantity is not None}
    optional = _list_passed(signature.constructor, optional=True)
    for given in (passed, *([optional] if optional != passed else ())):
        named = {a.name for a in given if a.quantity != "?"}
        if named and len(named) < len(given):
            yield from dict.fromkeys(_iter_assignments(given, named))
    yield from dict.fromkeys(_iter_assignments(passed, said))


def _list_passed(
    parameters: Sequence[SignatureParameter], *, optional: bool = False
) -> list[Argument]:
    """Return the arguments to pass; among them sizes that are None by default, if optional."""
    suggested = [_suggest(parameter, optional=optional) for parameter in parameters]
    return [argument for argument in suggested if argument is not None]


def _list_variables(signature: Signature) -> list[Argument]:
    guesses = (
        (v.name, v.quantity or guess_quantity(v.name), v.default) for v in signature.variables
    )
    return [
        Argument(name, quantity)
        for name, quantity, value in guesses
        if quantity in (*SIZES, "width", "dropout") and isinstance(value, int | float)
    ]


def _split(together: Constructor, count: int) -> Constructor:
    """Return a constructor whose arguments after the first `count` are variables."""
    arguments, variables = together.arguments[:count], together.arguments[count:]
    return replace(together, arguments=arguments, variables=variables)


def suggest_field(name: str) -> Argument:
    """Return the value for a field that a constructor reads from a config."""
    quantity = guess_quantity(name)
    if quantity in (None, "config", "bias") or is_flag(name):
        value = get_usual(name, 0.02 if SMALL.search(name) else name.endswith("first"))
        return Argument(name, CONSTANT, default=value)
    return Argument(name, quantity or CONSTANT)


def resolve_fields(fields: Sequence[Argument]) -> Constructor:
    """Return widths and their relation for the fields of a config."""
    return next(_resolve_widths(fields))


def _suggest(parameter: SignatureParameter, *, optional: bool = False) -> Argument | None:
    """Return an argument as its name suggests; None if it is left at its default."""
    name, quantity = parameter.name, parameter.quantity or guess_quantity(parameter.name)
    if parameter.quantity is not None:
        return Argument(name, parameter.quantity)
    if parameter.is_switch and not parameter.has_default:
        return Argument(name, CONSTANT, default=get_usual(name, is_flag(name)))
    if parameter.default is False and RELATIVE.search(name):
        return Argument(name, CONSTANT, default=True)
    if quantity in SCALES and parameter.has_default:
        return None
    if quantity in SCALES and parameter.by_name:  # an option, as of GPT-2
        quantity = None
    number = _is_number(parameter.default, quantity)
    if number and LARGEST_BATCH.fullmatch(name):
        return Argument(name, CONSTANT, default=get_usual(name))
    open_size = optional and quantity in SIZES and parameter.default is None
    if (
        parameter.has_default
        and not open_size
        and quantity not in ("config", "kv_heads")  # None is for as many as heads
        and (quantity in (None, "bias") or not number)
    ):
        return None
    if quantity == "bias" or (quantity is None and (is_flag(name) or parameter.by_name)):
        return Argument(name, CONSTANT, default=get_usual(name, True))
    if quantity is None:
        other = get_usual(name)
        return Argument(name, CONSTANT, default=other) if other is not None else Argument(name, "?")
    return Argument(name, quantity)


def _is_number(default: Literal, quantity: str | None) -> bool:
    """Whether a default is a number of this quantity; 1 or more is no rate of dropout."""
    is_number = isinstance(default, int | float) and not isinstance(default, bool)
    return is_number and (quantity != "dropout" or 0 <= float(default or 0) < 1)


def _resolve_widths(passed: Sequence[Argument]) -> Iterator[Constructor]:
    """Yield the meanings that widths may have beside the other quantities.

    A context has a width of its own only beside that of the tokens. Scores may be multiplied by
    their scale, or divided.
    """
    if any(argument.quantity == "?" for argument in passed):
        return
    if any(argument.quantity == "scale" for argument in passed):
        for meant in SCALES:
            own = (replace(a, quantity=meant) if a.quantity == "scale" else a for a in passed)
            yield from _resolve_factored(list(own))
        return
    yield from _resolve_factored(passed)


def _resolve_factored(passed: Sequence[Argument]) -> Iterator[Constructor]:
    """Yield the meanings of widths beside a scale that is known.

    A latent beside an input may be that of keys and values, or it attends to the input.
    """
    named = {a.quantity for a in passed}
    if {"d_latent", "d_in"} <= named and not {"width", "d_out", "d_context"} & named:
        yield from _resolve_own_widths(passed)
        as_context = {"d_latent": "width", "d_in": "d_context"}
        passed = [replace(a, quantity=as_context.get(a.quantity, a.quantity)) for a in passed]
    if any(a.quantity == "d_context" for a in passed):
        own = [replace(a, quantity="width") if OF_QUERIES.fullmatch(a.name) else a for a in passed]
        if {"width", "d_in"} & {a.quantity for a in own}:
            yield from _resolve_own_widths(own)
    yield from _resolve_own_widths(
        [replace(a, quantity="d_in") if a.quantity == "d_context" else a for a in passed]
    )


def _resolve_own_widths(passed: Sequence[Argument]) -> Iterator[Constructor]:
    """Yield the meanings that "width" may have beside the other quantities.

    The width of a model is that of input and output, so these are equal. If the width of the output
    or of a head is an argument, too, "width" may mean only the input's.
    """
    named = [argument.quantity for argument in passed]
    if "d_latent" in named and not {"width", "d_out", "d_in"} & {*named}:
        named = ["width" if quantity == "d_latent" else quantity for quantity in named]
    widths = [i for i, quantity in enumerate(named) if quantity == "width"]
    if len(widths) > 1:
        first, second = (widths[0], "d_in"), (widths[1], "d_out")
        yield _replace_quantities(passed, dict((first, second)), square=False)
        yield _replace_quantities(passed, dict.fromkeys(widths, "d_out"), square=True)
        return
    of_three = [i for i, quantity in enumerate(named) if quantity == "head_dim"]
    if len(of_three) > 2 and widths:  # key_size, query_size and value_size beside num_hiddens
        inputs = dict.fromkeys(of_three, "d_in")
        yield _replace_quantities(passed, {**inputs, widths[0]: "d_out"}, square=False)
    alone = "d_out" not in named and "head_dim" not in named
    as_input = dict.fromkeys(widths, "d_in")
    square = dict.fromkeys(widths, "d_out")
    if alone:
        yield _replace_quantities(passed, square, square=bool(widths) or "d_in" in named)
    elif widths and "heads" not in named:
        yield _replace_quantities(passed, as_input, square=False)
        yield _replace_quantities(passed, square, square=True)
    elif widths:
        yield _replace_quantities(passed, square, square=True)
        yield _replace_quantities(passed, as_input, square=False)
    else:
        if {"head_dim"} == {"head_dim", "heads", "d_out", "d_in"} & set(named):
            yield _replace_quantities(passed, {}, square=False)
        yield _replace_quantities(passed, {}, square="d_in" not in named)
        if {"d_out", "heads"} <= set(named):
            own = dict.fromkeys((i for i, q in enumerate(named) if q == "d_out"), "head_dim")
            yield _replace_quantities(passed, own, square=False)
        yield _replace_quantities(passed, {}, square=True)


def _replace_quantities(
    passed: Sequence[Argument], quantities: dict[int, str], *, square: bool
) -> Constructor:
    arguments = (
        replace(argument, quantity=quantities.get(i, argument.quantity))
        for i, argument in enumerate(passed)
    )
    return Constructor(tuple(arguments), square)


def _iter_assignments(passed: Sequence[Argument], said: Collection[str]) -> Iterator[Constructor]:
    """Yield every assignment of quantities to the arguments whose names may mislead."""
    open_ones = [
        i
        for i, a in enumerate(passed)
        if a.quantity not in (CONSTANT, "config") and a.name not in said
    ]
    if len(open_ones) > MAX_OPEN:
        return
    named = ["d_out" if a.quantity == "width" else a.quantity for a in passed]
    kept = {i: quantity for i, quantity in enumerate(named) if i not in open_ones}
    every = itertools.product(GUESSES, repeat=len(open_ones))
    possible = (chosen for chosen in every if _may_be(chosen, kept.values()))
    assignments = sorted(possible, key=lambda c: _count_idle((*c, *kept.values())))
    likely = [
        {**kept, **dict(zip(open_ones, chosen, strict=True))}
        for chosen in itertools.islice(assignments, MAX_ASSIGNMENTS)
    ]
    for quantities in likely:
        square = "d_in" not in quantities.values()
        yield _replace_quantities(passed, quantities, square=square)
    for quantities in likely:
        if {"d_out", "heads"} <= {*quantities.values()}:  # each head may be as wide
            yield _rename_quantities(passed, quantities, {"d_out": "head_dim"})
    # Last: where all widths are one, that of the input passes for that of the output.
    for quantities in likely:
        if {"d_in", "d_out"} <= {*quantities.values()}:
            yield _rename_quantities(passed, quantities, {"d_in": "d_out", "d_out": "d_in"})
            yield _replace_quantities(passed, quantities, square=True)


def _rename_quantities(
    passed: Sequence[Argument], quantities: Mapping[int, str], others: Mapping[str, str]
) -> Constructor:
    renamed = {i: others.get(quantity, quantity) for i, quantity in quantities.items()}
    return _replace_quantities(passed, renamed, square=False)


def _may_be(chosen: Sequence[str], kept: Collection[str]) -> bool:
    """Whether heads are assigned at most once, and key heads occur only together with heads."""
    shared = "kv_heads" not in chosen or "heads" in (*chosen, *kept)
    return chosen.count("heads") < 2 and shared


def _count_idle(quantities: Collection[str]) -> int:
    """Return how many arguments repeat a quantity, which is rare."""
    said = {*quantities}
    one_head = said >= {"d_out", "head_dim"} and "heads" not in said
    return len(quantities) - len(said) + one_head
