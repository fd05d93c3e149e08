"""A JUnit report gives the slowest files of a run."""

from pathlib import Path

from tests.slowest import show

REPORT = """<?xml version="1.0"?><testsuites><testsuite name="pytest">
<testcase classname="tests.grader.test_run" name="test_a[1]" time="1.5"/>
<testcase classname="tests.grader.test_run.TestOne" name="test_b" time="2.0"/>
<testcase classname="tests.test_chosen" name="test_c" time="0.25"/>
</testsuite></testsuites>"""


def test_the_slowest_file_comes_first(tmp_path: Path) -> None:
    report = tmp_path / "junit.xml"
    report.write_text(REPORT)
    assert show(report, 1).splitlines() == [
        "3 tests took 4 s of one process",
        "     3.5 s      2  tests/grader/test_run.py",
    ]
