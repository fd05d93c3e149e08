"""Records as a report holds them, for tests of what is shown of them."""

from dataclasses import replace
from html.parser import HTMLParser

from rich.cells import cell_len

from headcheck.grader.report.records import (
    Counterexample,
    ErrorRecord,
    NoteRecord,
    PropertyRecord,
    Report,
    SubmissionRecord,
)
from headcheck.grader.report.render import html
from headcheck.grader.report.render.lines import COLUMNS
from headcheck.properties.violations.violation import (
    Status,
    SubmissionFailed,
    Violation,
    ViolationKind,
)

SHAPE, FUTURE, EQUATION = (
    "The output has the right shape.",
    "The future is invisible.",
    "The output equals the equation.",
)
CASE = "batch=1 tokens=2 heads=1 float64 cpu seed=3"
CODE_TO_PASTE = "import torch\n\nprint(module(x))"


def make_property(
    name: str, group: str = "values", status: str = "passed", message: str = "", of: float = 2
) -> PropertyRecord:
    earned = of if status == "passed" else 0.0
    return PropertyRecord(name, name, group, status, earned, of, message)


def make_failed(name: str, group: str = "values", got: str = "1.5") -> PropertyRecord:
    violation = Violation(
        ViolationKind.VALUE, "0.5 ± 1e-06", got, "output[0, 0]", name, CASE, "√d_k?"
    )
    shown = Counterexample({"batch": 1}, CODE_TO_PASTE)
    record = make_property(name, group, "failed", str(violation))
    return replace(record, case=CASE, counterexample=shown)


def make_crashed(
    name: str, group: str = "values", seed: int = 3, status: str = "crashed"
) -> PropertyRecord:
    failure = SubmissionFailed(Status(status), "ValueError: no", 7, 3)
    case = CASE.replace("seed=3", f"seed={seed}")
    message = f"{name}\n  got       {failure}\n  on        {case}"
    return replace(make_property(name, group, status, message), case=case)


def make_untried(name: str, because: str, group: str = "values") -> PropertyRecord:
    message = f"Not tried, because this check did not pass: {because}"
    return make_property(name, group, "not_tried", message)


def make_submission(
    *claims: PropertyRecord, file: str = "ada.py", **more: object
) -> SubmissionRecord:
    troubles = [c.status for c in claims if c.status not in ("passed", "not_tried")]
    record = SubmissionRecord(
        file=file,
        student="ada",
        exercise="causal_attention",
        name="CausalAttention",
        score=sum(c.points for c in claims),
        max_score=sum(c.max_points for c in claims),
        status=troubles[0] if troubles else "passed",
        seconds=1.0,
        properties=claims,
    )
    return replace(record, **more)  # type: ignore[arg-type]


def make_unjudged(
    message: str = "line 3: '(' was never closed", **more: object
) -> SubmissionRecord:
    record = SubmissionRecord("b.ipynb", "b", None, None, 0.0, 0.0, "not_tried", 0.1)
    return replace(record, error=ErrorRecord("syntax", message, 4, 3), **more)  # type: ignore[arg-type]


def count_rows(shown: str) -> int:
    """How many lines of a terminal of 80 columns a text fills."""
    return sum(max(1, -(-cell_len(line) // COLUMNS)) for line in shown.splitlines())


def make_report(*submissions: SubmissionRecord) -> Report:
    return Report(1, "0.1.0", submissions)


RIGHT = make_submission(
    make_property(SHAPE, "contract"), make_property(FUTURE, "mask"), make_property(EQUATION)
)
WRONG = make_submission(
    make_property(SHAPE, "contract"),
    make_failed(EQUATION),
    make_property("It is repeatable."),
    make_failed(FUTURE, "mask"),
    make_untried("Weights sum to one.", EQUATION, "weights"),
    make_untried("Weights are positive.", EQUATION, "weights"),
    notes=(NoteRecord("prints", "`forward` calls print 6 times", 3, 26),),
    file="class/alan.py",
)


class Outline(HTMLParser):
    """The tags of a page, in order, and its words."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.open: list[str] = []
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("br", "input", "meta", "wbr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"script", "style", "title"} & set(self.open):
            self.words += data

    def get_tag_names(self) -> list[str]:
        return [tag for tag, _ in self.tags]

    def find_all(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag == name]


def render_pages(whole: Report) -> list[str]:
    pages = [html.render_page(each, whole) for each in whole.submissions]
    return [html.render_index(whole), html.render_all(whole), *pages]
