"""Contract files: what they say, what follows from it, and what is said of broken files."""

import pickle
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import get_type_hints

import pytest

from headcheck.exercises import ALL, BY_SLUG, Exercise, contract_checks
from headcheck.exercises.contract_file import LIMITS, load_exercise, names_folder
from headcheck.exercises.exercise import BadContract
from headcheck.exercises.toml_lines import Place, find_line, parse
from headcheck.grader.report.course_file import BadCourseFile
from headcheck.grader.sandbox.limits import Limits
from headcheck.properties.contracts.contract import Argument, Capability, Contract, Entry, Returns
from headcheck.properties.contracts.parameter_mapping import ParameterMapping
from headcheck.properties.parts import WEIGHTS
from headcheck.properties.terms.case import Case
from headcheck.properties.terms.group import PropertyGroup
from headcheck.reference import Parameters
from tests.exercises.contract_folders import CONTRACT, read_complaint, write_folder

TOKENS = {"ATTENTION", "TOKENS", "STABLE", "WIDTHS"}
MODULE = {*TOKENS, "MODULE", "PROJECTED", "INITIALISED"}
CAUSAL = {*MODULE, "CAUSAL", "CONTEXT", "BATCH"}
HEADS = {*CAUSAL, "HEADS", "OUTPUT_PROJECTION", "OUTPUT_BIAS"}
OPTION = {"BIAS", "BIAS_OPTION"}
PLAIN = {
    "OWN_KEYS",
    "ANY_DISTANCE",
    "ANY_LENGTH",
    "PLACELESS",
    "UNBIASED",
    "DOT_PRODUCT",
    "UNNORMED",
}
PLAIN |= {"NORMALISED", "UNGATED", "UNCOMPRESSED", "ONE_MAP", "CONSTANT_SUM", "SOFTMAX", "BARE"}
PLAIN |= {"ANY_KEYS", "PROPORTIONAL"}
MODERN = {*HEADS, *OPTION, *PLAIN, "DROPOUT", "DIVISIBLE"} - {"CONTEXT"}
CAPABILITIES = {
    "linear_layer": {"BATCH", "BIAS", "HEADS", "PROJECTED", "TOKENS", "WIDTHS"},
    "simplified_attention": {*TOKENS, "FULL", "STATELESS"},
    "scaled_dot_product": {*TOKENS, "FULL", "STATELESS", "PROJECTED"},
    "self_attention_v1": {*MODULE, "FULL", "UNIFORM"},
    "self_attention_v2": {*MODULE, *OPTION, "FULL"},
    "weight_transfer": {*MODULE, "FULL", "TRANSFER"} - {"INITIALISED"},
    "causal_weights": {"ATTENTION", "CAUSAL", "PROJECTED", "WEIGHTS"},
    "causal_attention": {*CAUSAL, *OPTION, "DROPOUT"},
    "multi_head_wrapper": {*CAUSAL, *OPTION, "DROPOUT", "HEADS"},
    "two_dimensional_output": {*CAUSAL, "HEADS"} - {"WIDTHS"},
    "multi_head_attention": {*HEADS, *OPTION, "DROPOUT", "DIVISIBLE"},
    "cross_attention": {*HEADS, *OPTION, "DROPOUT", "DIVISIBLE", "FULL", "CROSS"}
    - {"CAUSAL", "CONTEXT"},
    "causal_alignment": {*TOKENS, "CAUSAL", "BATCH", "HEADS", "CROSS", "ALIGNED", "ROLES"},
    "online_softmax": {*TOKENS, "FULL", "BATCH", "HEADS", "CROSS", "ROLES", "BLOCKED", "LOGSUMEXP"},
    "flash_attention": {*TOKENS, "FULL", "BATCH", "HEADS", "CROSS", "ROLES", "BLOCKED"}
    | {"RECOMPUTED", "CAUSAL_OPTION", "ALIGNED"},
    "padding_mask": {*HEADS, *OPTION, "DROPOUT", "DIVISIBLE", "FULL", "PADDING", "TAKES_MASK"}
    - {"CAUSAL", "CONTEXT"},
    "sliding_window": {*MODERN, "WINDOW"} - {"ANY_DISTANCE"},
    "grouped_query": {*MODERN, "GROUPED"} - {"OWN_KEYS"},
    "rope": {*MODERN, "POSITIONS"} - {"PLACELESS", "DOT_PRODUCT"},
    "scaled_rope": {*MODERN, "POSITIONS"} - {"PLACELESS", "DOT_PRODUCT"},
    "alibi": {*MODERN, "POSITIONS"} - {"PLACELESS", "UNBIASED"},
    "softcap": {*MODERN, "SOFTCAP"} - {"DOT_PRODUCT"},
    "attention_sink": {*MODERN, "SINKS"} - {"NORMALISED", "CONSTANT_SUM"},
    "gated_attention": {*MODERN, "GATED"} - {"UNGATED"},
    "differential_attention": {*MODERN, "DIFFERENTIAL"} - {"DROPOUT", "NORMALISED", "ONE_MAP"},
    "kv_cache": {*MODERN, "CACHE", "HANDED_CACHE"} - PLAIN,
    "linear_attention": {*MODERN, "CACHE", "HANDED_CACHE", "FEATURES", "LINEAR_MEMORY"}
    - {"DROPOUT", "STABLE", "SOFTMAX", "DOT_PRODUCT"},
    "llama_attention": {*MODERN, "CACHE", "HANDED_CACHE", "GROUPED", "POSITIONS"}
    - {"BIAS", "BIAS_OPTION", "DROPOUT", "OUTPUT_BIAS"}
    - {"OWN_KEYS", "PLACELESS", "DOT_PRODUCT"},
    "latent_attention": {*MODERN, "CACHE", "HANDED_CACHE", "LATENT", "BESIDE", "POSITIONS"}
    - {"BIAS", "BIAS_OPTION", "DROPOUT", "OUTPUT_BIAS"}
    - {"PLACELESS", "DOT_PRODUCT", "UNCOMPRESSED"},
    "gpt2_size": HEADS - {"WIDTHS"},
    "gpt_block": {*MODERN, "BLOCK", "CENTRED_NORMS"} - {"DROPOUT", "BARE"},
    "causal_self_attention": {*HEADS, "BIAS", "CONFIG"},
    "looped_causal_self_attention": {*HEADS, "BIAS"},
    "fused_causal_self_attention": {*HEADS, "BIAS", "FUSED"},
    "masked_multi_head": {*HEADS, "BIAS", "FULL", "MASK", "TAKES_MASK", "WEIGHTS"}
    - {"CAUSAL", "CONTEXT"},
}
"""what is asked in each exercise follows from these"""
OF_THEIR_OWN = (
    "sliding_window", "grouped_query", "rope", "scaled_rope", "alibi", "softcap", "attention_sink",
    "gated_attention", "differential_attention", "linear_attention", "llama_attention",
    "latent_attention", "gpt_block",
)  # fmt: skip
PLAIN_OF_OTHERS = {slug: set[str]() for slug in OF_THEIR_OWN}
"""what these have of the plain steps stands above; all others have all of them"""


# -------------------------------------------------------------------------- what it says


def test_every_key_becomes_a_field(tmp_path: Path) -> None:
    exercise = load_exercise(write_folder(tmp_path / "fused-2"))
    assert (exercise.slug, exercise.title) == ("fused-2", "Fused attention")
    assert exercise.points == {PropertyGroup.VALUES: 40}
    assert exercise.limits == {"idle_s": 0.5}
    contract = exercise.contract
    assert contract.entry is Entry.CLASS
    assert contract.arguments == (
        Argument("d_in", "d_in"),
        Argument("d_out", "d_out"),
        Argument("num_heads", "heads", default=2),
        Argument("qkv_bias", "bias", default=False, optional=True),
    )
    assert contract.mappings == (
        ParameterMapping("qkv.weight", ("W_q", "W_k", "W_v")),
        ParameterMapping("qkv.bias", ("b_q", "b_k", "b_v")),
        ParameterMapping("out.weight", ("W_o",), transposed=True),
    )
    assert [
        each.name
        for each in (C.OUTPUT_PROJECTION, C.BIAS, C.BIAS_OPTION, C.HEADS)
        if contract.has(each)
    ] == ["OUTPUT_PROJECTION", "BIAS", "BIAS_OPTION", "HEADS"]
    assert not contract.has(C.OUTPUT_BIAS) and not contract.has(C.CONTEXT)


C = Capability


def test_ours_say_what_they_always_said() -> None:
    found = {each.slug: {c.name for c in each.contract.capabilities} for each in ALL}
    assert all("STATED" in names for names in found.values())
    assert [slug for slug in found if "ANY_MASK" in found[slug]] == ["masked_multi_head"]
    expected = {
        slug: names | PLAIN_OF_OTHERS.get(slug, PLAIN) for slug, names in CAPABILITIES.items()
    }
    assert {
        slug: names - {"STATED", "HALF", "STRIDED", "ANY_MASK", "STEADY"}
        for slug, names in found.items()
    } == expected
    masked = BY_SLUG["masked_multi_head"].contract
    assert masked == Contract(
        name="MultiHeadAttention",
        arguments=(
            Argument("d_model", "d_out", default=512),
            Argument("num_heads", "heads", default=8),
        ),
        mappings=tuple(
            ParameterMapping(f"W_{letter}.{kind}", (f"{kind[0].replace('w', 'W')}_{letter}",))
            for letter in "qkvo"
            for kind in ("weight", "bias")
        ),
        call=("x", "mask"),
        returns=Returns.OUTPUT_AND_WEIGHTS,
        square=True,
        capabilities=masked.capabilities,
    )
    sizes = BY_SLUG["gpt2_size"].contract.sizes
    assert sizes == {"d_in": 768, "heads": 12, "head_dim": 64, "context_length": 1024}
    assert BY_SLUG["simplified_attention"].contract.scale == 1.0


def test_a_transfer_has_the_contracts_of_both_modules() -> None:
    contract = BY_SLUG["weight_transfer"].contract
    assert contract.transfer is not None
    source, target = contract.transfer
    version_2 = BY_SLUG["self_attention_v2"].contract
    assert target == BY_SLUG["self_attention_v1"].contract
    assert source == replace(version_2, arguments=version_2.arguments[:2])
    assert contract.mappings == source.mappings


def test_names_are_those_of_the_records_they_stand_for() -> None:
    assert set(WEIGHTS) == {each.name for each in fields(Parameters)}
    types = get_type_hints(Limits) | {"memory": int}  # no limit is none to write
    assert types == LIMITS
    assert set(contract_checks.SIZES) <= {each.name for each in fields(Case)}
    others = {"config", "constant"}
    assert all(hasattr(Case(), q) for q in contract_checks.QUANTITIES if q not in others)


def test_listing_exercises_imports_no_torch() -> None:
    program = "import sys, exercises; exercises.ALL; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_reading_runs_nothing(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "fused")
    (folder / "solution.py").write_text("raise SystemExit('it was run')\n", encoding="utf-8")
    (folder / "__init__.py").write_text("raise SystemExit('it was run')\n", encoding="utf-8")
    assert load_exercise(folder).solution.startswith("raise")


# -------------------------------------------------------------------------- one object


def test_a_process_has_one_object_until_the_contract_changes(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "fused")
    first = load_exercise(folder)
    assert load_exercise(folder / "contract.toml") is first
    assert pickle.loads(pickle.dumps(first)) is first
    write_folder(folder, CONTRACT.replace("Fused attention", "Another title"))
    again = load_exercise(folder)
    assert (first.title, again.title) == ("Fused attention", "Another title")
    assert pickle.loads(pickle.dumps(first)) is first, "it is sent as it was read"


def test_ours_are_sent_as_the_one_object() -> None:
    assert all(pickle.loads(pickle.dumps(each)) is each for each in ALL)


def test_an_exercise_arrives_where_its_folder_is_not(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "fused")
    sent = pickle.dumps(load_exercise(folder))
    for path in folder.iterdir():
        path.unlink()
    program = "import pickle, sys; print(pickle.load(sys.stdin.buffer).contract.name)"
    done = subprocess.run(
        [sys.executable, "-c", program], input=sent, capture_output=True, check=True
    )
    assert done.stdout.strip() == b"FusedAttention"


@pytest.mark.parametrize(
    ("name", "is_folder"),
    [("gqa", False), ("here", True), ("./gqa", True), ("gqa/", True), ("a/gqa", True), (".", True)],
)
def test_a_folder_is_told_from_a_slug(
    name: str, is_folder: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_folder(tmp_path / "here")
    monkeypatch.chdir(tmp_path)
    assert names_folder(name) is is_folder


# -------------------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("contract.toml", "there is no such file: an exercise is a folder with a contract"),
        ("statement.md", "there is no such file: write what students read"),
        ("hints.md", "there is no such file: write a numbered list of hints"),
    ],
)
def test_a_missing_file_is_named(name: str, said: str, tmp_path: Path) -> None:
    (write_folder(tmp_path / "fused") / name).unlink()
    with pytest.raises(BadContract) as caught:
        load_exercise(tmp_path / "fused")
    assert str(caught.value) == f"{tmp_path / 'fused' / name}, line 1: {said}"


def test_a_folder_for_students_has_no_solution(tmp_path: Path) -> None:
    exercise = load_exercise(write_folder(tmp_path / "fused"))
    with pytest.raises(BadContract, match=r"solution\.py, line 1: there is no such file"):
        assert exercise.solution


def test_a_folder_must_have_the_name_of_an_exercise(tmp_path: Path) -> None:
    said = read_complaint(tmp_path / "my exercise", CONTRACT)
    assert said.startswith("line 1: 'my exercise' cannot name an exercise: ")


def test_another_encoding_is_told(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "fused")
    (folder / "contract.toml").write_bytes(CONTRACT.replace("Fused a", "Fusé a").encode("latin-1"))
    with pytest.raises(BadContract, match="line 2: is not UTF-8"):
        load_exercise(folder)


def test_lines_are_those_of_the_innermost_key() -> None:
    text = '[a]\n"b.c" = 1\n\n[a.d]\ne = { f = 2 }\n'
    assert find_line(text, ("a", "b.c")) == 2
    assert find_line(text, ("a", "d", "e", "f")) == 5
    assert find_line(text, ("a", "d")) == 4
    assert find_line(text, ("a", "z")) == 1
    assert find_line("", ("a",)) == 1


def test_one_of_ours_that_is_wrong_is_told_by_the_command(
    tmp_path: Path,
) -> None:
    """Whoever adds an exercise reads one line, whatever is imported first."""
    program = (
        "import sys\nfrom headcheck import exercises\n"
        "exercises.__file__ = sys.argv.pop()\n"
        "from headcheck.grader.ui.cli import main\n"
        "main()\n"
    )
    write_folder(tmp_path / "linear_layer", CONTRACT.replace("batch", "bacth"))
    command = [sys.executable, "-c", program, "list", str(tmp_path / "__init__.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"headcheck: {tmp_path / 'linear_layer' / 'contract.toml'}, line 7"
    )
    assert done.stderr.count("\n") == 1


def test_an_exercise_knows_whether_it_is_ours(tmp_path: Path) -> None:
    outside: Exercise = load_exercise(write_folder(tmp_path / "fused"))
    assert not outside.is_ours
    assert all(each.is_ours for each in ALL)


@pytest.mark.parametrize(
    "number",
    [
        "1" * 5000,
        "-" + "1_0" * 3000,
        "0x" + "f" * 5000,
        "0b" + "1" * 70,
        "[1, [0o7" + "7" * 9000 + "]]",
    ],
)
@pytest.mark.parametrize("error", [BadContract, BadCourseFile])
def test_number_that_toml_does_not_have_is_told_with_its_line(
    number: str, error: type[Exception]
) -> None:
    place = Place(Path("a.toml"), f"title = 'x'\n[points]\nvalues = {number}\n", error=error)
    with pytest.raises(error, match=r"a\.toml, line 3: .*64 bits"):
        parse(place)


def test_message_about_a_contract_controls_nothing_and_is_short() -> None:
    text = str(
        BadContract("a.toml, line 1: \x1b]0;no\x07\n::error::\u202e##[x" + "y" * 30_000 + "end")
    )
    assert text.isprintable() and "\\x1b]0;no\\x07\\n" in text and "##[" not in text
    assert len(text) < 1100 and text.endswith("end")
    again = pickle.loads(pickle.dumps(BadContract("a.toml: 'ü\\x1b'")))
    assert str(again) == "a.toml: 'ü\\x1b'"
