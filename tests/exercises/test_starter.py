"""Starters: what they keep, what they leave out, and that no answer is overwritten."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import pytest

from headcheck.exercises import ALL, BY_SLUG, Exercise, starter
from headcheck.exercises.starter import BEGIN, END, StarterForm
from tests.submissions import execute

SLUGS = sorted(BY_SLUG)
LINEAR = BY_SLUG["linear_layer"]


def cells(exercise: Exercise) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = nbformat.reads(
        starter.render_notebook(exercise), as_version=4
    ).cells
    return found


def code(exercise: Exercise) -> list[str]:
    return [cell["source"] for cell in cells(exercise) if cell["cell_type"] == "code"]


def with_solution(tmp_path: Path, text: str) -> Exercise:
    (tmp_path / "solution.py").write_text(text, encoding="utf-8")
    (tmp_path / "statement.md").write_text("# Two\n\nReturn it.\n", encoding="utf-8")
    (tmp_path / "hints.md").write_text("1. Think.\n", encoding="utf-8")
    return replace(LINEAR, folder=tmp_path)


def solution_lines(exercise: Exercise) -> set[str]:
    """What stands between the markers, line by line; lines without a word give nothing away."""
    regions = [piece.split(END)[0] for piece in exercise.solution.split(BEGIN)[1:]]
    lines = {line.strip() for region in regions for line in region.splitlines()}
    return {line for line in lines if any(c.isalnum() for c in line)}


# -------------------------------------------------------------------------- every exercise


@pytest.mark.parametrize("slug", SLUGS)
def test_module_runs_and_defines_the_target(slug: str) -> None:
    found = execute(starter.render_module(BY_SLUG[slug]))
    assert callable(found[BY_SLUG[slug].contract.name])


@pytest.mark.parametrize("slug", SLUGS)
def test_notebook_runs_and_defines_the_target(slug: str) -> None:
    found = execute(*code(BY_SLUG[slug])[:-1])  # the last is the check
    assert callable(found[BY_SLUG[slug].contract.name])


@pytest.mark.parametrize("slug", SLUGS)
def test_no_line_of_the_solution_is_in_a_starter(slug: str) -> None:
    exercise = BY_SLUG[slug]
    secret = solution_lines(exercise)
    assert secret
    shown = [starter.render_module(exercise), *(cell["source"] for cell in cells(exercise)[1:])]
    assert secret.isdisjoint(line.strip() for text in shown for line in text.splitlines())


@pytest.mark.parametrize("slug", SLUGS)
def test_every_gap_is_marked_and_no_marker_is_left(slug: str) -> None:
    exercise = BY_SLUG[slug]
    regions = exercise.solution.count(BEGIN)
    for text in (starter.render_module(exercise), "\n".join(code(exercise))):
        assert text.count("...  # your code here") == regions
        assert BEGIN not in text
        assert END not in text


@pytest.mark.parametrize("slug", SLUGS)
def test_the_notebook_is_valid_and_always_the_same(slug: str) -> None:
    text = starter.render_notebook(BY_SLUG[slug])
    assert text == starter.render_notebook(BY_SLUG[slug])
    loaded = json.loads(text)
    assert (loaded["nbformat"], loaded["nbformat_minor"]) == (4, 5)
    nbformat.validate(nbformat.reads(text, as_version=4))
    ids = [cell["id"] for cell in loaded["cells"]]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("slug", SLUGS)
def test_the_notebook_begins_with_the_statement_and_ends_with_the_check(slug: str) -> None:
    first, *_, last = cells(BY_SLUG[slug])
    assert first["cell_type"] == "markdown"
    assert first["source"] == BY_SLUG[slug].statement.strip()
    assert last["cell_type"] == "code"
    assert last["source"] == f"from headcheck import check\n\ncheck({BY_SLUG[slug].contract.name})"


@pytest.mark.parametrize("slug", SLUGS)
def test_notebook_folds_hints_and_shows_the_check_command(slug: str) -> None:
    *_, hints, checking, _ = (cell["source"] for cell in cells(BY_SLUG[slug]))
    for number, hint in enumerate(BY_SLUG[slug].hints, 1):
        folded = f"<details>\n<summary>Hint {number}</summary>\n\n{hint}\n\n</details>"
        assert folded in hints
    assert f"    headcheck check {slug}.ipynb" in checking.splitlines()


@pytest.mark.parametrize("slug", SLUGS)
def test_the_module_says_what_it_is_and_where_the_statement_is(slug: str) -> None:
    first, *rest = starter.render_module(BY_SLUG[slug]).splitlines()
    assert first == f'"""{BY_SLUG[slug].title}.'
    head = "\n".join(rest).partition('"""')[0]
    assert f"headcheck show {slug}\n" in head
    assert f"headcheck check {slug}.py\n" in head
    assert f"headcheck hint {slug}\n" in head


@pytest.mark.parametrize("slug", SLUGS)
def test_a_notebook_installs_nothing_unless_it_is_said_from_where(slug: str) -> None:
    assert "pip" not in "\n".join(code(BY_SLUG[slug]))
    assert "pip" not in starter.render_module(BY_SLUG[slug])


@pytest.mark.parametrize("address", ["headcheck @ git+https://x.org/h", """a'b"c\\"""])
def test_what_is_said_is_installed_where_headcheck_is_missing(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = starter.render_notebook(LINEAR, address)
    install, *others = nbformat.reads(text, as_version=4).cells
    assert [each["source"] for each in others] == [each["source"] for each in cells(LINEAR)]
    calls: list[list[str]] = []
    monkeypatch.setattr("subprocess.run", lambda command, check: calls.append(command))
    exec(install["source"], {})
    assert calls == [], "it is there"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    exec(install["source"], {})
    [command] = calls
    assert command[1:] == ["-m", "pip", "install", "-q", address]


# -------------------------------------------------------------------------- cells and regions

SOURCE = """\
# %% [markdown]
# # The title
#
# First words.
#
# - and a list

# %%
import math


# %%
def two() -> int:
    # BEGIN SOLUTION
    one = 1
    # END SOLUTION
    given = math.tau
    if given:
        # BEGIN SOLUTION
        return 2
        # END SOLUTION

# %%
# %% [markdown]
# # Last words
"""


def test_cells_are_split_at_their_markers(tmp_path: Path) -> None:
    found = [
        (cell["cell_type"], cell["source"]) for cell in cells(with_solution(tmp_path, SOURCE))[1:-3]
    ]
    assert found == [
        ("markdown", "First words.\n\n- and a list"),
        ("code", "import math"),
        (
            "code",
            "def two() -> int:\n"
            "    ...  # your code here\n"
            "    given = math.tau\n"
            "    if given:\n"
            "        ...  # your code here",
        ),
    ]


def test_module_is_the_source_without_its_regions(tmp_path: Path) -> None:
    assert starter.render_module(with_solution(tmp_path, SOURCE)) == (
        '"""A linear layer.\n'
        "\n"
        "Read what is asked:  headcheck show linear_layer\n"
        "Check your answer:   headcheck check linear_layer.py --exercise linear_layer\n"
        "When you are stuck:  headcheck hint linear_layer\n"
        '"""\n'
        "\n"
        "# %% [markdown]\n"
        "# First words.\n"
        "#\n"
        "# - and a list\n"
        "\n"
        "# %%\n"
        "import math\n"
        "\n"
        "\n"
        "# %%\n"
        "def two() -> int:\n"
        "    ...  # your code here\n"
        "    given = math.tau\n"
        "    if given:\n"
        "        ...  # your code here\n"
    )


def test_code_before_the_first_marker_is_a_cell_too(tmp_path: Path) -> None:
    exercise = with_solution(tmp_path, f"import math\n# %%\n{BEGIN}\nx = 1\n{END}\n")
    assert code(exercise)[:-1] == ["import math", "...  # your code here"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", r"solution\.py: no part is marked for the student; put `# BEGIN SOL"),
        (f"{BEGIN}\nx = 1\n", r"solution\.py, line 1: `# BEGIN SOLUTION` is never followed by"),
        (f"x = 1\n{END}\n", r"solution\.py, line 2: `# END SOLUTION` without a `# BEGIN"),
        (
            f"{BEGIN}\nx = 1\n  {BEGIN}\n{END}\n",
            r"solution\.py, line 3: `# BEGIN SOLUTION` inside the region that line 1 began",
        ),
    ],
)
def test_wrong_markers_are_refused(tmp_path: Path, text: str, message: str) -> None:
    exercise = with_solution(tmp_path, text)
    with pytest.raises(ValueError, match=message):
        starter.render_module(exercise)
    with pytest.raises(ValueError, match=message):
        starter.render_notebook(exercise)


# -------------------------------------------------------------------------- writing


@pytest.mark.parametrize(
    ("form", "names"),
    [
        ("ipynb", ["linear_layer.ipynb"]),
        ("py", ["linear_layer.py"]),
        ("both", ["linear_layer.ipynb", "linear_layer.py"]),
    ],
)
def test_the_files_asked_for_are_written(
    tmp_path: Path, form: StarterForm, names: list[str]
) -> None:
    written = starter.write_starter(LINEAR, tmp_path / "new" / "folder", form=form)
    assert [path.name for path in written] == names
    assert sorted(tmp_path.glob("new/folder/*")) == sorted(written)
    texts = {".py": starter.render_module(LINEAR), ".ipynb": starter.render_notebook(LINEAR)}
    assert [path.read_text(encoding="utf-8") for path in written] == [
        texts[path.suffix] for path in written
    ]


def test_nothing_is_written_if_a_file_exists(tmp_path: Path) -> None:
    mine = tmp_path / "linear_layer.py"
    mine.write_text("my answer", encoding="utf-8")
    with pytest.raises(FileExistsError, match=r"linear_layer\.py is already there.*Move or rename"):
        starter.write_starter(LINEAR, tmp_path, form="both")
    assert list(tmp_path.iterdir()) == [mine]
    assert mine.read_text(encoding="utf-8") == "my answer"


@pytest.mark.parametrize(
    ("form", "listing"),
    [("ipynb", "contents.ipynb"), ("py", "contents.md"), ("both", "contents.ipynb")],
)
def test_the_series_comes_with_its_contents_in_teaching_order(
    tmp_path: Path, form: StarterForm, listing: str
) -> None:
    first, *others = starter.write_starters(ALL, tmp_path, form=form)
    assert first == tmp_path / listing
    text = first.read_text(encoding="utf-8")
    if first.suffix == ".ipynb":
        notebook = nbformat.reads(text, as_version=4)
        nbformat.validate(notebook)
        text = "".join(cell.source for cell in notebook.cells)
    linked = re.findall(r"\]\((.*?)\)", text)
    assert linked == [path.name for path in others]
    assert list(dict.fromkeys(Path(name).stem for name in linked)) == [e.slug for e in ALL]
    assert sorted(tmp_path.iterdir()) == sorted([first, *others])


def test_a_series_is_not_written_over_an_answer(tmp_path: Path) -> None:
    mine = tmp_path / f"{ALL[-1].slug}.ipynb"
    mine.write_text("my answer", encoding="utf-8")
    with pytest.raises(FileExistsError, match=r"already there, .* nothing was written"):
        starter.write_starters(ALL, tmp_path, form="ipynb")
    assert list(tmp_path.iterdir()) == [mine]
