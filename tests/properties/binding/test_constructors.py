"""What arguments of a constructor may be: first what names suggest, then everything."""

import ast

import pytest

from headcheck.properties.binding.constructors import (
    MAX_ASSIGNMENTS,
    Constructor,
    iter_assigned,
    iter_suggested,
    suggest_field,
)
from headcheck.properties.binding.hypotheses import PROBE, make_probe_case
from headcheck.properties.contracts.contract import CONSTANT
from headcheck.properties.signatures.signature import Signature, SignatureParameter


def signature(*names: str, variables: tuple[SignatureParameter, ...] = ()) -> Signature:
    """A class that takes these; `name=3` is one with a default."""
    read = [name.partition("=") for name in names]
    values = {name: ast.literal_eval(default or "None") for name, _, default in read}
    taken = (SignatureParameter(name, bool(equals), values[name]) for name, equals, _ in read)
    return Signature("Own", tuple(taken), (SignatureParameter("x"),), variables)


def show(constructor: Constructor) -> str:
    said = " ".join(a.quantity for a in constructor.arguments)
    return f"{said}, square" if constructor.square else said


def suggested(*names: str) -> list[str]:
    return [show(each) for each in iter_suggested(signature(*names))]


@pytest.mark.parametrize(
    ("names", "first"),
    [
        ("d_in d_out", "d_in d_out"),
        ("d_model num_heads", "d_out heads, square"),
        ("embed_dim", "d_out, square"),
        ("dim head_size", "d_in head_dim"),
        ("n_embd n_head block_size dropout", "d_out heads context_length dropout, square"),
        ("d_in d_out context_length dropout num_heads", "d_in d_out context_length dropout heads"),
        ("d_model d_k d_v n_heads", "d_out head_dim head_dim heads, square"),
        ("dim heads dim_head", "d_out heads head_dim, square"),
    ],
)
def test_what_names_suggest_comes_first(names: str, first: str) -> None:
    assert suggested(*names.split())[0] == first


def test_of_two_widths_the_first_is_that_of_the_input_or_both_are_one() -> None:
    assert suggested("embed_dim", "hidden_dim") == ["d_in d_out", "d_out d_out, square"]


def test_the_width_of_a_model_may_be_that_of_its_input_alone() -> None:
    assert suggested("dim", "head_size") == ["d_in head_dim", "d_out head_dim, square"]


def test_a_name_that_says_nothing_suggests_no_constructor() -> None:
    assert suggested("dim", "blorp") == []


def test_an_option_is_on_and_what_has_a_default_is_left_to_it() -> None:
    [made] = iter_suggested(signature("dim", "use_bias", "causal=True", "qkv_bias=True"))
    assert [(a.name, a.quantity, a.default) for a in made.arguments] == [
        ("dim", "d_out", None),
        ("use_bias", CONSTANT, True),
    ]


def test_sizes_that_have_a_default_are_passed() -> None:
    [made] = iter_suggested(signature("d_model=512", "num_heads=8", "dropout=0.1"))
    assert show(made) == "d_out heads dropout, square"


@pytest.mark.parametrize(("name", "value"), [("layer_idx", 0), ("device", "cpu")])
def test_some_other_arguments_get_what_they_usually_get(name: str, value: object) -> None:
    [made] = iter_suggested(signature("dim", name))
    assert made.arguments[1].default == value


def test_what_is_on_or_off_by_its_annotation_is_no_size_and_no_rate() -> None:
    taken = (SignatureParameter("dim"), SignatureParameter("turned", is_switch=True))
    [first, *_] = iter_suggested(Signature("Own", taken, (SignatureParameter("x"),)))
    assert [(a.quantity, a.default) for a in first.arguments][1] == (CONSTANT, False)


@pytest.mark.parametrize("name", ["reduce_rate=2", "downsample_rate=1"])
def test_what_has_a_default_that_is_no_rate_is_left_to_it(name: str) -> None:
    assert suggested("dim", "heads", name)[0] == "d_out heads, square"
    assert suggested("dim", "heads", "rate=0.1")[0] == "d_out heads dropout, square"


def test_every_assignment_is_tried_where_names_mislead_but_not_without_end() -> None:
    two = [show(each) for each in iter_assigned(signature("a", "b"))]
    assert "d_out heads, square" in two and "heads d_out, square" in two
    assert len(set(two)) == len(two)
    many = list(iter_assigned(signature(*"abcdef")))
    assert 0 < len(many) <= 8 * MAX_ASSIGNMENTS


def test_what_says_something_else_than_the_named_arguments_is_tried_first() -> None:
    first = next(iter_assigned(signature("embed_dim", "blorp")))
    assert show(first) == "d_out heads, square"


def test_two_arguments_are_never_both_the_number_of_heads() -> None:
    for made in iter_assigned(signature("a", "b", "c")):
        assert [a.quantity for a in made.arguments].count("heads") < 2


def test_variables_of_the_submission_that_are_sizes_are_set_like_arguments() -> None:
    read = (SignatureParameter("n_embd", True, 24), SignatureParameter("batch_size", True, 4))
    first, *others = iter_suggested(signature("num_heads", "head_size", variables=read))
    assert [(v.name, v.quantity) for v in first.variables] == [("n_embd", "d_out")]
    assert first.quantities >= {"heads", "head_dim"}
    assert others[-1].variables == ()


@pytest.mark.parametrize(
    ("name", "quantity", "default"),
    [
        ("n_embd", "width", None),
        ("n_head", "heads", None),
        ("attn_pdrop", "dropout", None),
        ("initializer_range", CONSTANT, 0.02),
        ("bias", CONSTANT, False),
        ("layer_idx", CONSTANT, 0),
        ("batch_first", CONSTANT, True),
    ],
)
def test_fields_of_a_config_are_known_by_their_names(
    name: str, quantity: str, default: object
) -> None:
    field = suggest_field(name)
    assert (field.quantity, field.default) == (quantity, default)


def test_no_size_to_probe_with_is_another_or_a_multiple_of_it() -> None:
    made = next(iter_suggested(signature("d_in", "d_out", "context_length", "num_heads")))
    case = make_probe_case(made)
    sizes = [PROBE.batch, case.tokens, case.context_length, case.d_in, case.heads, case.head_dim]
    assert len({*sizes, case.d_out}) == 7
    assert not {2 * case.d_out, 3 * case.d_out, 2 * case.d_in, 3 * case.d_in} & {*sizes}


def test_what_takes_no_number_of_heads_is_probed_with_one() -> None:
    made = next(iter_suggested(signature("d_in", "d_out")))
    case = make_probe_case(made)
    assert (case.heads, case.d_out) == (1, PROBE.d_out)
