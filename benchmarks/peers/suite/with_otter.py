"""The checks as a test file of otter-grader, in its exception-based format."""

import checks
from otter.test_files import test_case

OK_FORMAT = False
name = "attention"
points = 1


@test_case()
def test_it_can_be_constructed(MultiHeadAttention):
    checks.it_can_be_constructed(MultiHeadAttention)


@test_case()
def test_the_output_has_the_right_shape(MultiHeadAttention):
    checks.the_output_has_the_right_shape(MultiHeadAttention)


@test_case()
def test_it_equals_the_equation(MultiHeadAttention):
    checks.it_equals_the_equation(MultiHeadAttention)


@test_case()
def test_the_future_is_invisible(MultiHeadAttention):
    checks.the_future_is_invisible(MultiHeadAttention)


@test_case()
def test_gradients_arrive(MultiHeadAttention):
    checks.gradients_arrive(MultiHeadAttention)
