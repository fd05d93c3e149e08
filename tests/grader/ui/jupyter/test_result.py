"""What the result of a check shows where it is displayed, and what it has besides."""

from dataclasses import replace

from headcheck.grader.report.records import DiagnosisRecord
from headcheck.grader.ui.jupyter.checking import MORE, CheckResult
from tests.grader.report.records import make_failed, make_submission

MISTAKE = DiagnosisRecord("no_mask", "Nothing is hidden.", 3, 12, 7, 7)
CLAIMS = [replace(make_failed(f"Claim {n}."), follows=True) for n in range(9)]
RESULT = CheckResult(make_submission(*CLAIMS, diagnosis=(MISTAKE,)))


def test_what_follows_is_folded_as_text_and_as_a_page() -> None:
    assert f"  8 more checks fail for this reason; {MORE} shows them" in str(RESULT)
    assert "Claim 1." not in str(RESULT)
    assert "8 more checks fail for this reason" in RESULT._repr_html_()


def test_all_of_it_is_there_to_print() -> None:
    assert all(claim.claim in RESULT.verbose for claim in CLAIMS)
    assert MORE not in RESULT.verbose
