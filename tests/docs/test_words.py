"""One word for one thing: words that were given up stay away, and terms of our own are few."""

import ast
import re
import subprocess
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("reference", "properties", "exercises", "grader")
RETIRED = (
    r"examiner|rehears\w+|foretold|foreseen|unforeseen|recollect\w*|kitchen|misstep\w*"
    r"|misconception\w*|landmarks?|must_equal|must_stay|must_match|must_be_as_before|as_drawn"
    r"|traits?|trials?|shelf"
)
KEPT = {
    "tests/browser/test_site.py",  # the rules of axe-core
    "tests/docs/test_words.py",
    "tests/grader/report/test_render_html.py",  # the landmarks of a page
}


def sources() -> list[Path]:
    """Every text file that git knows, but what students might write."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout
    names = [name for name in listed.split("\0") if name.endswith((".py", ".md", ".toml", ".j2"))]
    ours = [n for n in names if n not in KEPT and not re.search(r"/answers/|^examples/", n)]
    # The site links to documents, which are read where they lie.
    return [ROOT / name for name in ours if not (ROOT / name).is_symlink()]


def test_no_retired_word_is_left() -> None:
    word = re.compile(rf"(?i)(?<![a-z])({RETIRED})(?![a-z])")
    left = [
        f"{path.relative_to(ROOT)}:{number}: {found[0]}"
        for path in sources()
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1)
        if (found := word.search(line))
    ]
    assert left == []


def test_a_type_name_has_one_owner() -> None:
    owners = defaultdict(list)
    for path in sources():
        name = str(path.relative_to(ROOT))
        if path.suffix != ".py" or name.split("/")[0] not in ROOMS or path.name == "solution.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                owners[node.name].append(name)
    assert {name: where for name, where in owners.items() if len(where) > 1} == {}


def test_the_glossary_is_short() -> None:
    rows = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").split("\n")
    terms = [row.split("**")[1] for row in rows if row.startswith("| **")]
    assert 10 <= len(terms) <= 40
    assert terms == sorted(terms)
