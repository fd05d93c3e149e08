"""Write the students' code as Python files, for tools that compare code.

`info.csv` tells Dolos about the files: https://dolos.ugent.be/docs/adding-metadata.html
"""

import re
from collections import Counter
from collections.abc import Iterator

from headcheck.grader.course.export.gradebook import (
    ExportedFiles,
    Gradebook,
    encode_csv,
    escape_cell,
    make_numbered_name,
)
from headcheck.grader.course.store.bundle import Unpacked
from headcheck.grader.reading.cells import Unreadable, list_code_cells
from headcheck.grader.report.render.sanitise import sanitise_line

COLUMNS = ("filename", "full_name", "label", "created_at", "handed_in_as")
MAGIC = re.compile(r"^(?=[ \t]*[%!?])", re.MULTILINE)
"""the beginning of a line with a notebook command"""


def render(book: Gradebook) -> ExportedFiles:
    """Return a `.py` for every file that was graded, and `info.csv` about them."""
    files: dict[str, bytes] = {}
    rows: list[tuple[str, ...]] = [COLUMNS]
    problems: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for graded, content in book.code:
        try:
            text = b"\n".join(_iter_parts(content))
        except Unreadable as error:
            file = f" ({graded.file})" if graded.file else ""
            problems[sanitise_line(f"{graded.student}{file}")] = str(error)
            continue
        counts[graded.student] += 1
        name = make_numbered_name(graded.student, counts[graded.student], ".py")
        files[name] = text
        person = book.find_student(graded)
        about = (person.display_name, person.section, graded.submitted or "", graded.file)
        rows.append((name, *map(escape_cell, about)))  # the name must stay as it is
    files["info.csv"] = encode_csv(rows)
    return ExportedFiles(files, tuple(problems), tuple(map(": ".join, problems.items())))


def _iter_parts(content: Unpacked) -> Iterator[bytes]:
    """Yield the code of a file, then the files that it imports. Raises Unreadable."""
    if content.kind == "ipynb":
        for number, text in list_code_cells(content.data):
            code = MAGIC.sub("# ", text or "")
            yield f"# cell {number}\n{code}\n".encode()
    elif content.kind == "py":
        yield content.data
    else:
        raise Unreadable("The file could not be read when it was graded.")
    yield from (each.data for each in content.siblings.files)
