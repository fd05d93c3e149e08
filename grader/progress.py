"""Bars on standard error that show how many files are graded. Imported only for a terminal."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from headcheck.grader.grading.events import Event, SearchAdvanced
from headcheck.grader.reading.submission import Submission


class RateColumn(ProgressColumn):
    """The number of files graded per second."""

    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:.1f}/s")


@dataclass(frozen=True)
class Bars:
    """A bar for the files, and one for the search on the file that is being graded."""

    progress: Progress
    files: TaskID
    search: TaskID

    def show(self, event: Event) -> None:
        """Show how far a search is."""
        if isinstance(event, SearchAdvanced):
            done, total = int(event.done), ceil(event.limit)
            self.progress.update(self.search, completed=done, total=total, visible=True)

    def advance(self, file: Submission) -> None:
        """Show that one more file is graded."""
        self.progress.update(self.files, description=file.display_path[-40:], advance=1)
        self.progress.update(self.search, visible=False)


@contextmanager
def show_bars(count: int) -> Iterator[Bars]:
    """Show bars for this many files within the context."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        RateColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        files = progress.add_task("grading", total=count)
        yield Bars(progress, files, progress.add_task("generated cases", visible=False))
