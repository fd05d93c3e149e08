"""All exercises in teaching order. Each has its own folder; see `exercises.contract_file`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from headcheck.exercises.contract_file import load_exercise
from headcheck.exercises.exercise import Exercise

SERIES = (
    "linear_layer",
    "simplified_attention",
    "scaled_dot_product",
    "self_attention_v1",
    "self_attention_v2",
    "weight_transfer",
    "causal_weights",
    "causal_attention",
    "multi_head_wrapper",
    "two_dimensional_output",
    "multi_head_attention",
    "cross_attention",
    "causal_alignment",
    "online_softmax",
    "flash_attention",
    "padding_mask",
    "sliding_window",
    "grouped_query",
    "rope",
    "scaled_rope",
    "alibi",
    "softcap",
    "attention_sink",
    "gated_attention",
    "differential_attention",
    "kv_cache",
    "linear_attention",
    "llama_attention",
    "latent_attention",
    "gpt2_size",
    "gpt_block",
    "causal_self_attention",
    "looped_causal_self_attention",
    "fused_causal_self_attention",
    "masked_multi_head",
)
"""The folders of the exercises."""

ALL: tuple[Exercise, ...]
BY_SLUG: dict[str, Exercise]

if not TYPE_CHECKING:  # for the type checker, these two names are all

    def __getattr__(name: str) -> Any:
        """Load the exercises on first access, so that importing this package cannot fail."""
        if name not in ("ALL", "BY_SLUG"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        loaded = tuple(load_exercise(Path(__file__).resolve().parent / slug) for slug in SERIES)
        globals().update(ALL=loaded, BY_SLUG={each.slug: each for each in loaded})
        return globals()[name]


__all__ = ["ALL", "BY_SLUG", "Exercise"]
