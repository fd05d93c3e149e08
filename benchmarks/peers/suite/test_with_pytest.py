"""The checks as tests of pytest, for the submission in the folder that pytest is started in."""

import checks
import pytest
from submission import MultiHeadAttention


@pytest.mark.parametrize("check", checks.CHECKS)
def test_multi_head_attention(check):
    check(MultiHeadAttention)
