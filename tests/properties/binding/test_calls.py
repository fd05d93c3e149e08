"""The forms in which a module may be called, as its signature allows."""

import pytest

from headcheck.properties.binding.calls import find_mask_name, iter_call_forms, iter_role_orders
from headcheck.properties.signatures.signature import SignatureParameter
from headcheck.properties.terms.call_form import Given


def parameters(written: str) -> list[SignatureParameter]:
    names = [name.partition("=") for name in written.split()]
    return [SignatureParameter(name, bool(default)) for name, default, _ in names]


def inputs(written: str) -> list[tuple[str, ...]]:
    return list(dict.fromkeys(form.inputs for form in iter_call_forms(parameters(written))))


@pytest.mark.parametrize(
    ("written", "forms"),
    [
        ("x", [("x",)]),
        ("x mask=None", [("x", "mask"), ("x",)]),
        ("x mask", [("x", "mask"), ("x",)]),
        ("query key value", [("query", "key", "value")]),
        ("value key query mask=", [("value", "key", "query", "mask"), ("value", "key", "query")]),
        ("a b c", [("query", "key", "value")]),
        ("query key value past= flag= mask=", [("x",) * 5 + ("mask",), ("query", "key", "value")]),
        ("x memory", [("query", "context")]),
        ("x past=None", [("x",)]),
        ("m", [("x",)]),
        ("m mask=None", [("x", "mask"), ("x",)]),
        ("x m", [("x", "mask"), ("x",)]),
        ("hidden_states attention_mask=None head_mask=None", [("x", "mask"), ("x",)]),
    ],
)
def test_inputs_follow_the_signature(written: str, forms: list[tuple[str, ...]]) -> None:
    assert inputs(written) == forms


def test_a_mask_that_is_required_is_given_in_every_shape() -> None:
    *forms, last = iter_call_forms(parameters("x mask"))
    masks = [form.mask for form in forms]
    assert last.inputs == ("x",) and last.given == {"mask": Given.NONE}, "only if none is taken"
    assert masks[0].required is False, "it may do without, whatever its signature says"
    assert {m.axes for m in masks[1:]} == {2, 3, 4}
    assert all(m.required for m in masks[1:])


def test_a_mask_with_a_default_is_not_required() -> None:
    assert not any(form.mask.required for form in iter_call_forms(parameters("x mask=")))


def test_the_mask_is_found_by_its_name() -> None:
    assert find_mask_name(parameters("x key_padding_mask= attn_mask=")) == "key_padding_mask"
    assert find_mask_name(parameters("x y")) is None
    assert find_mask_name(parameters("m")) is None


def test_tokens_are_tried_in_every_order_and_a_mask_stays_in_its_place() -> None:
    orders = list(iter_role_orders(("query", "mask", "context")))
    assert orders == [("query", "mask", "context"), ("context", "mask", "query")]
    assert len(set(iter_role_orders(("query", "key", "value")))) == 6
