"""Attention of libraries keeps its contract, but for what docs/libraries.md says of it.

A library that is not here is skipped; `tox run -e libraries` installs them all.
"""

import importlib
import os
import re
from collections.abc import Iterator
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
    """A contract, the class that keeps it, the module that must be there, and what fails."""

    contract: str
    name: str
    library: str
    sizes: str = "tokens<=9999"
    findings: frozenset[str] = frozenset()
    source: str = ""
    """where a library is that is on no package index: "ADDRESS, as FOLDER" """

    @property
    def target(self) -> str:
        """The class in the library itself, or in a module beside the contract."""
        module = FOLDER / f"{self.contract}.py"
        return f"{module if module.is_file() else self.library}:{self.name}"


DROPOUT = frozenset(
    {
        "dropout_acts_on_the_attention_weights",
        "dropout_drops_the_stated_share",
        "dropout_scales_up_what_it_keeps",
        "every_call_drops_anew",
        "every_weight_is_dropped_for_itself",
    }
)
"""what fails if dropout is not used"""
ADAPTERS = (
    Adapter("multihead_attention", "MultiheadAttention", "torch.nn"),
    Adapter("multihead_attention_widths", "MultiheadAttention", "torch.nn"),
    Adapter("nanogpt_like", "CausalSelfAttention", "torch.nn"),
    Adapter("padded_decoder", "PaddedDecoder", "torch.nn"),
    Adapter("biased_encoder", "BiasedEncoder", "torch.nn"),
    Adapter("windowed_decoder", "WindowedDecoder", "torch.nn"),
    Adapter("sdpa_shared_heads", "SharedHeads", "torch.nn"),
    Adapter("timm_attention", "Attention", "timm.layers"),
    Adapter(
        "x_transformers_attention",
        "XTransformersAttention",
        "x_transformers",
        "heads>=2",
        frozenset({"loading_and_moving_keep_the_parameters"}),
    ),
    Adapter(
        "x_transformers_decoder",
        "XTransformersDecoder",
        "x_transformers",
        findings=frozenset({"loading_and_moving_keep_the_parameters"}),
    ),
    Adapter("torchtune_attention", "TorchtuneAttention", "torchtune.modules"),
    Adapter("diffusers_attention", "Attention", "diffusers.models.attention_processor"),
    Adapter("diffusers_cross_attention", "Attention", "diffusers.models.attention_processor"),
    Adapter(
        "transformers_gpt2",
        "GPT2",
        "transformers.models.gpt2.modeling_gpt2",
        findings=frozenset(
            {
                "new_numbers_in_the_same_tensor_are_a_new_input",
                "no_case_is_refused",
                "the_memory_layout_does_not_matter",
            }
        ),
    ),
    Adapter("transformers_bert", "Bert", "transformers.models.bert.modeling_bert"),
    Adapter("transformers_vit", "ViT", "transformers.models.vit.modeling_vit"),
    Adapter("transformers_bart", "Bart", "transformers.models.bart.modeling_bart"),
    Adapter("transformers_llama", "Llama", "transformers.models.llama.modeling_llama"),
    Adapter("transformers_qwen3", "Qwen3", "transformers.models.qwen3.modeling_qwen3"),
    Adapter("transformers_olmo2", "Olmo2", "transformers.models.olmo2.modeling_olmo2"),
    Adapter(
        "transformers_diffllama",
        "DiffLlama",
        "transformers.models.diffllama.modeling_diffllama",
    ),
    Adapter("transformers_gpt_oss", "GptOss", "transformers.models.gpt_oss.modeling_gpt_oss"),
    Adapter("transformers_phi", "Phi", "transformers.models.phi.modeling_phi"),
    Adapter(
        "transformers_deepseek_v2",
        "DeepseekV2",
        "transformers.models.deepseek_v2.modeling_deepseek_v2",
    ),
    Adapter("transformers_mistral", "Mistral", "transformers.models.mistral.modeling_mistral"),
    Adapter("transformers_neox", "NeoX", "transformers.models.gpt_neox.modeling_gpt_neox"),
    Adapter("transformers_gemma2", "Gemma2", "transformers.models.gemma2.modeling_gemma2"),
    Adapter("transformers_gpt_neo", "GPTNeo", "transformers.models.gpt_neo.modeling_gpt_neo"),
    Adapter("transformers_bloom", "Bloom", "transformers.models.bloom.modeling_bloom"),
    Adapter("transformers_cohere", "Cohere", "transformers.models.cohere.modeling_cohere"),
    Adapter("transformers_phi3", "Phi3", "transformers.models.phi3.modeling_phi3"),
    Adapter("transformers_gptj", "GPTJ", "transformers.models.gptj.modeling_gptj"),
    Adapter("transformers_opt", "OPT", "transformers.models.opt.modeling_opt"),
    Adapter(
        "transformers_qwen3_next",
        "Qwen3Next",
        "transformers.models.qwen3_next.modeling_qwen3_next",
    ),
    Adapter("transformers_whisper", "Whisper", "transformers.models.whisper.modeling_whisper"),
    Adapter(
        "transformers_whisper_cross",
        "WhisperCross",
        "transformers.models.whisper.modeling_whisper",
    ),
    Adapter("transformers_t5", "T5", "transformers.models.t5.modeling_t5"),
    Adapter("transformers_t5_cross", "T5Cross", "transformers.models.t5.modeling_t5"),
    Adapter("litgpt_attention", "LitGPT", "litgpt.model"),
    Adapter(
        "litgpt_softcap",
        "LimitedLitGPT",
        "litgpt.model",
        findings=frozenset({"one_token_at_a_time_gives_the_same_output"}),
    ),
    Adapter(
        "litgpt_window",
        "WindowedLitGPT",
        "litgpt.model",
        findings=frozenset({"several_tokens_at_a_time_give_the_same_output"}),
    ),
    Adapter("local_attention", "LocalAttention", "local_attention.transformer", findings=DROPOUT),
    Adapter(
        "local_attention_cached",
        "CachedLocalAttention",
        "local_attention.transformer",
        findings=DROPOUT | {"one_token_at_a_time_gives_the_same_output"},
    ),
    Adapter("labml_attention", "LabmlAttention", "labml_nn.transformers.mha"),
    Adapter("labml_alibi", "LabmlAlibi", "labml_nn.transformers.alibi"),
    Adapter(
        "labml_rotary",
        "LabmlRotary",
        "labml_nn.transformers.rope",
        findings=frozenset({"the_first_call_does_not_matter"}),
    ),
    Adapter("from_scratch_gpt", "MultiHeadAttention", "llms_from_scratch.ch03"),
    Adapter(
        "from_scratch_cached_gpt",
        "CachedGPT",
        "llms_from_scratch.kv_cache.gpt2",
        findings=frozenset({"one_token_at_a_time_gives_the_same_output"}),
    ),
    Adapter("from_scratch_qwen3", "FromScratchQwen3", "llms_from_scratch.kv_cache.qwen3"),
    Adapter(
        "mingpt_attention",
        "CausalSelfAttention",
        "mingpt.model",
        source="github.com/karpathy/minGPT, as minGPT",
    ),
    Adapter(
        "llama2c_attention",
        "Llama2C",
        "llama2c.model",
        source="github.com/karpathy/llama2.c, as llama2c",
    ),
    Adapter(
        "gpt_fast_attention",
        "GPTFast",
        "gptfast.model",
        source="github.com/meta-pytorch/gpt-fast, as gptfast",
    ),
)
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
    assert set(find_failures(load(adapter))) == adapter.findings


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
    assert set(find_failures(load(adapter, other))) == adapter.findings


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.contract)
def test_what_is_known_is_on_the_page(adapter: Adapter) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{adapter.contract}"))
    assert all(f"`{name}`" in row for name in adapter.findings)


def test_every_contract_is_tried() -> None:
    contracts = {path.stem for path in FOLDER.glob("*.toml")}
    assert contracts == {adapter.contract for adapter in ADAPTERS}
    modules = {path.stem for path in FOLDER.glob("*.py")}
    assert modules <= contracts
