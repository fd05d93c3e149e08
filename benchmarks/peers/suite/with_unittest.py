"""The checks as a TestCase, the way autograders of Gradescope are written."""

import unittest

import checks
from submission import MultiHeadAttention


class TestMultiHeadAttention(unittest.TestCase):
    def test_it_can_be_constructed(self):
        checks.it_can_be_constructed(MultiHeadAttention)

    def test_the_output_has_the_right_shape(self):
        checks.the_output_has_the_right_shape(MultiHeadAttention)

    def test_it_equals_the_equation(self):
        checks.it_equals_the_equation(MultiHeadAttention)

    def test_the_future_is_invisible(self):
        checks.the_future_is_invisible(MultiHeadAttention)

    def test_gradients_arrive(self):
        checks.gradients_arrive(MultiHeadAttention)


if __name__ == "__main__":
    unittest.main()
