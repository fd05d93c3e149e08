"""Classes by somebody who had not seen the code: what is right binds, what is none does not."""

import pytest

from headcheck.properties.binding.binding import Binding, NotBound, bind
from tests.forms.bank import Form, list_forms, open_class

# What these classes do may make torch warn; that is not what is asked here.
pytestmark = pytest.mark.filterwarnings("ignore")

WITHOUT_CANONICAL_FORM = {
    "023": "each head projects a slice of the input of its own: there is no one W_q",
    "040": "it has two output layers, one after the other: that of torch and its own",
    "050": "each head is as wide as the model: the equation has their sum as wide",
}
"""right classes that are not recognised, and why"""
LIKE_A_MISTAKE = {
    "123": "a number in the denominator is a known mistake, and here on purpose",
}
"""other classes that compute what a known mistake computes, and why"""
RIGHT, WRONG, OTHER = (list_forms(label) for label in ("right", "wrong", "other"))


def bound(form: Form) -> Binding | NotBound:
    return bind(*open_class(form.source, form.cls))


def name(form: Form) -> str:
    return form.file.removesuffix(".py")


def test_the_bank_is_as_large_as_its_labels_say() -> None:
    assert (len(RIGHT), len(WRONG), len(OTHER)) == (58, 53, 14)
    labelled = {form.path for form in (*RIGHT, *WRONG, *OTHER)}
    assert labelled == set(RIGHT[0].path.parent.glob("*.py"))


@pytest.mark.sampled("form", RIGHT, RIGHT[::7], ids=name)
def test_a_right_class_is_bound_exactly(form: Form) -> None:
    found = bound(form)
    if form.number in WITHOUT_CANONICAL_FORM:
        assert isinstance(found, NotBound)
    else:
        assert isinstance(found, Binding), f"not bound: {form.what}"
        assert (found.mistakes, found.inexact) == ((), False), form.what


@pytest.mark.sampled("form", WRONG, WRONG[::26], ids=name)
def test_a_wrong_class_is_bound_or_not_but_breaks_nothing(form: Form) -> None:
    assert isinstance(bound(form), Binding | NotBound)


@pytest.mark.sampled("form", OTHER, OTHER[2::12], ids=name)
def test_another_kind_of_attention_is_not_bound(form: Form) -> None:
    found = bound(form)
    if form.number in LIKE_A_MISTAKE:
        assert isinstance(found, Binding) and found.mistakes
    else:
        assert isinstance(found, NotBound), f"bound: {form.what}"
