"""What does not run in bfloat16 fails by that alone; other claims on bfloat16 come after it."""

import pytest

from headcheck.exercises import ALL, Exercise
from headcheck.properties.families.dropped_pairs import no_two_weights_are_dropped_together
from headcheck.properties.families.precision import bfloat16_runs
from headcheck.properties.property import Property
from headcheck.properties.terms.depth import Depth


def list_required(prop: Property) -> set[Property]:
    return set(prop.requires).union(*map(list_required, prop.requires))


@pytest.mark.parametrize("exercise", ALL, ids=lambda exercise: exercise.slug)
def test_whatever_is_asked_in_bfloat16_comes_after_that_it_runs(exercise: Exercise) -> None:
    plan = exercise.at(Depth.THOROUGH).plan_cases(0, "cpu")
    in_half = {prop for prop, cases in plan.items() if {c.dtype for c in cases} == {"bfloat16"}}
    in_half |= {no_two_weights_are_dropped_together} & plan.keys()
    order = list(plan)
    for prop in in_half - {bfloat16_runs}:
        assert bfloat16_runs in list_required(prop)
        assert bfloat16_runs not in plan or order.index(bfloat16_runs) < order.index(prop)
