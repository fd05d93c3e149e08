"""Judge an answer in terms of its own, if it has another form than its exercise asks for."""

import re
from dataclasses import replace

from headcheck.grader.grading.infer import Target
from headcheck.grader.grading.open_mode.recognition import Recognition
from headcheck.grader.grading.open_mode.targets import make_adapted_target, make_open_target
from headcheck.grader.grading.other_form import Difference
from headcheck.properties.binding.binding import Binding, NotBound
from headcheck.properties.contracts.contract import Capability, Contract


def make_own_target(found: Recognition, target: Target, differs: Difference) -> Target | None:
    """Return the target of an answer in its own terms; None if it is judged by the exercise's.

    Unless this exercise was asked for, a class of another form is judged by its behaviour alone.
    """
    binding = found.binding
    if binding is None or not _may_differ(binding, differs):
        return None
    if differs.layers:
        binding = _say_exercise(binding, target.exercise.slug)
    if not differs.asked and not (differs.named and binding.broken):
        return make_open_target(found.signature, binding)
    return make_adapted_target(found.signature, target, binding)


def answers_nothing(found: Recognition, target: Target, differs: Difference) -> bool:
    """Whether a definition of another form computes no known attention, and not the exercise's.

    Only its name resembles the exercise's, or nothing is known of it, or no weight has a name that
    the exercise asks for.
    """
    if found.binding is not None or found.failure is not None or not differs:
        return False
    asked = target.exercise.contract
    return differs.resembles or (not differs.asked and _is_foreign(asked, found.unbound))


def _may_differ(binding: Binding, differs: Difference) -> bool:
    """Whether a definition that is recognised so is judged in its own terms.

    If its form does not differ, a mistake in it is one by the exercise. So it is if only more
    layers differ.
    """
    if differs.form:
        return not (differs.asked and binding.inexact)
    if differs.layers or not differs:
        return not binding.mistakes and not binding.inexact
    return binding.contract.has(Capability.BATCH) and not binding.inexact


def _is_foreign(asked: Contract, found: NotBound | None) -> bool:
    """Whether nothing is known of an unrecognised class, or no weight is named as asked."""
    if found is None or found.lacks_import:
        return found is not None
    wanted = {_simplify(mapping.path) for mapping in asked.mappings}
    own = {_simplify(path) for path in found.paths}
    return bool(own) and not wanted & own


def _simplify(path: str) -> str:
    """Return a path of a weight without what people write in several ways: `W_q` is `wq`.

    A head's number stands for that of any head.
    """
    return re.sub(r"\{\w+\}|\d+", "*", path).replace("_", "").lower()


def _say_exercise(binding: Binding, slug: str) -> Binding:
    """Return a binding that says which exercise a class with more layers could answer."""
    remark = f"it is named as in `{slug}`, but has more layers: to judge it by that, add --exercise"
    return replace(binding, remarks=(*binding.remarks, remark))


def say_beyond(binding: Binding, slug: str) -> Binding:
    """Return a binding that says that a class answers an exercise, and takes more."""
    remark = f"it answers `{slug}`, which does not ask for all that its calls take"
    return replace(binding, remarks=(*binding.remarks, remark))
