"""Attention of libraries keeps its contract, but for what docs/libraries.md says of it.

A library that is not here is skipped; `tox run -e libraries` installs them all.
"""

import importlib
import os
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from headcheck.grader.ui.pytest_plugin.plugin import load_suite
from headcheck.grader.ui.pytest_plugin.suite import PropertySuite
from headcheck.grader.ui.pytest_plugin.target_settings import Setting, TargetSettings

ALL_ARE_HERE = "HEADCHECK_LIBRARIES" in os.environ  # as in the environments of tox
pytestmark = pytest.mark.filterwarnings("ignore")  # of what libraries say when they are imported
FOLDER = Path(__file__).parents[2] / "examples" / "adapters"
PAGE = (FOLDER.parents[1] / "docs" / "libraries.md").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Adapter:
    """A row of the table, which says what each field is."""

    contract: str
    name: str
    library: str
    sizes: str = "tokens<=9999"
    findings: Sequence[str] = ()
    source: str = ""
    """`ADDRESS, as FOLDER`"""

    @property
    def target(self) -> str:
        """The class in the library itself, or in a module beside the contract."""
        module = FOLDER / f"{self.contract}.py"
        return f"{module if module.is_file() else self.library}:{self.name}"


TABLE = tomllib.loads(Path(__file__).with_name("adapters.toml").read_text(encoding="utf-8"))
ADAPTERS = tuple(Adapter(contract, **row) for contract, row in TABLE.items())
SAMPLE = tuple(each for each in ADAPTERS if each.library != "torch.nn")
"""torch's own attention is judged by tests/library in every run, and no library is in another"""


def load(adapter: Adapter, module: Path | None = None) -> PropertySuite:
    """Return the suite of an adapter, or of another module that has its class.

    Skip where its library cannot be imported, unless all of them are installed.
    """
    try:
        importlib.import_module(adapter.library)
    except Exception as error:
        if adapter.source:
            pytest.skip(f"on no package index: on PYTHONPATH there is no {adapter.source}")
        if ALL_ARE_HERE:
            raise
        pytest.skip(f"{adapter.library} cannot be imported: {' '.join(str(error).split())[:80]}")
    contract = FOLDER / f"{adapter.contract}.toml"
    return load_suite(
        TargetSettings(
            Setting(f"{module}:{adapter.name}" if module else adapter.target, "name"),
            contract=Setting(str(contract), "contract"),
            sizes=Setting(adapter.sizes, "sizes"),
        )
    )


OTHER = {"eager": "sdpa", "sdpa": "eager"}


def list_both_ways() -> list[Adapter]:
    """The adapters of transformers, whose attention is computed in two ways."""
    # Some are eager only, and eagerly the others want other masks: see the page.
    eager = "gemma2", "gpt_oss", "gpt_neo", "bloom", "gptj"
    alone = tuple(f"transformers_{name}" for name in (*eager, "gpt2", "neox", "vit"))
    named = (each for each in ADAPTERS if each.contract.startswith("transformers_"))
    return [each for each in named if each.contract not in alone]


def find_failures(suite: PropertySuite) -> Iterator[str]:
    for variant in suite.list_variants(["cpu"]):
        if suite.get_outcome(variant).failure:
            yield variant.prop.name


@pytest.mark.sampled("adapter", ADAPTERS, SAMPLE, ids=lambda adapter: adapter.contract)
def test_a_library_keeps_its_contract_but_for_what_is_known(adapter: Adapter) -> None:
    assert set(find_failures(load(adapter))) == set(adapter.findings)


@pytest.mark.whole
@pytest.mark.parametrize("adapter", list_both_ways(), ids=lambda adapter: adapter.contract)
def test_the_other_way_to_compute_it_keeps_the_contract_too(
    adapter: Adapter, tmp_path: Path
) -> None:
    """What is said to be computed eagerly is computed by torch's kernels, and the other way."""
    source = (FOLDER / f"{adapter.contract}.py").read_text(encoding="utf-8")
    found = re.findall(r'"?attn_implementation"?[:=] ?"(\w+)"', source)
    assert len(found) == 1, "it says once how it is computed"
    other = tmp_path / f"{adapter.contract}.py"
    other.write_text(source.replace(f'"{found[0]}"', f'"{OTHER[found[0]]}"'), encoding="utf-8")
    contract = (FOLDER / f"{adapter.contract}.toml").read_text(encoding="utf-8")
    weights = found[0] == "eager" and "output_and_weights" in contract
    if weights:
        pytest.skip("torch's kernels return no weights")
    assert set(find_failures(load(adapter, other))) == set(adapter.findings)


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.contract)
def test_what_is_known_is_on_the_page(adapter: Adapter) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{adapter.contract}"))
    assert all(f"`{name}`" in row for name in adapter.findings)


def test_every_contract_is_tried() -> None:
    contracts = {path.stem for path in FOLDER.glob("*.toml")}
    assert contracts == {adapter.contract for adapter in ADAPTERS}
    modules = {path.stem for path in FOLDER.glob("*.py")}
    assert modules <= contracts
