"""What right and wrong attention look like: `python -m benchmarks.gallery docs`.

One common mistake of each exercise (`gallery.toml`) is graded on the public cases. The first
picture of its report, which shows the right result beside the actual one, goes to
`docs/images/gallery`, and `docs/gallery.md` shows it.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from markupsafe import Markup

from headcheck.exercises import BY_SLUG
from headcheck.exercises.answers import Answer, find_answer
from headcheck.grader.report.pictures.draw import Picture, draw_pictures
from headcheck.grader.report.records import SubmissionRecord, from_json

CHOSEN = Path(__file__).with_name("gallery.toml")
GAP = 12
"""pixels around and between panels"""
HEAD = """\
# Gallery

Made by `python -m benchmarks.gallery docs`; do not edit.

What right attention looks like, and beside it a common mistake of each exercise: the pictures that
students and instructors see in reports. The wrong answers are in `exercises/<slug>/answers`.
"""


def grade(slug: str, answer: Answer) -> SubmissionRecord:
    """Return the record of an answer, graded on the public cases."""
    with TemporaryDirectory() as folder:
        Path(folder, f"{answer.name}.py").write_text(answer.source, encoding="utf-8")
        command = sys.executable, "-m", "headcheck", "grade", "--seed", "0", "--format", "json"
        done = subprocess.run(
            (*command, "--exercise", slug, folder), capture_output=True, check=False
        )
    [record] = from_json(done.stdout).submissions
    return record


def find_picture(record: SubmissionRecord) -> Picture:
    """Return the first picture of a record. Raises ClickException if it has none."""
    for each in record.properties:
        for picture in draw_pictures(each.evidence):
            return picture
    raise click.ClickException(f"{record.file}: no picture, choose another in {CHOSEN.name}")


def join_panels(picture: Picture) -> str:
    """Return all panels of a picture beside each other, on white, as one drawing."""
    x, height, parts = GAP, 0.0, []
    for panel in map(str, picture.panels):
        width, tall = (float(n) for n in re.findall(r' (?:width|height)="([\d.]+)"', panel)[:2])
        parts.append(panel.replace("<svg ", f'<svg x="{x}" y="{GAP}" ', 1))
        x, height = x + round(width) + GAP, max(height, tall)
    size = f'width="{x}" height="{height + 2 * GAP:g}"'
    style = 'font-family="system-ui, sans-serif" color="#1c1c1c"'
    sheet = f'<rect {size} fill="#ffffff"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>{sheet}{"".join(parts)}</svg>\n'


def render_entry(slug: str, answer: Answer, record: SubmissionRecord, picture: Picture) -> str:
    """Return the section of one exercise."""
    named = [mistake.sentence for mistake in record.diagnosis]
    told = " ".join(named) or Markup(picture.sentence)
    title = f"## {BY_SLUG[slug].title}"
    shown = f"![{picture.sentence}](images/gallery/{slug}.svg)"
    return f"{title}\n\n`{slug}/{answer.name}`: {told}\n\n{shown}\n\n{picture.sentence}\n"


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
def main(folder: Path) -> None:
    """Write gallery.md and its images into FOLDER."""
    images = folder / "images" / "gallery"
    images.mkdir(parents=True, exist_ok=True)
    entries = []
    for slug, name in tomllib.loads(CHOSEN.read_text()).items():
        answer = find_answer(BY_SLUG[slug], name)
        record = grade(slug, answer)
        picture = find_picture(record)
        (images / f"{slug}.svg").write_text(join_panels(picture), encoding="utf-8")
        entries.append(render_entry(slug, answer, record, picture))
    (folder / "gallery.md").write_text("\n".join([HEAD, *entries]), encoding="utf-8")


if __name__ == "__main__":
    main()
