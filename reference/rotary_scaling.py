"""Rotary frequencies for sequences longer than those that a model was trained on.

Pair i of d coordinates rotates by θ_i = base^(-2i/d) radians a token, so it turns
r_i = L θ_i / 2π times within the original length L. The four kinds replace θ_i by

    linear   θ_i / factor: all positions are divided
             (Chen et al. 2023, section 2.3, arXiv:2306.15595)
    ntk      (base · factor^(d/(d - 2)))^(-2i/d): the first pair is kept, the last one divided
             ("NTK-aware": Peng et al. 2023, "YaRN", section 3.1, arXiv:2309.00071)
    yarn     s_i θ_i + (1 - s_i) θ_i / factor, where s_i falls from 1 to 0 between the pairs that
             turn `fast` and `slow` times, linearly in i, as in the authors' code (Peng et al. 2023,
             section 3.4); cosines and sines are multiplied by an attention factor
    llama3   the same sum, where s_i = (r_i - slow) / (fast - slow), limited to 0 … 1, is linear in
             r_i (Llama 3.1, `apply_scaling` in its code; "NTK-by-parts" of Peng et al., section
             3.2)

`fast` and `slow` are YaRN's beta_fast and beta_slow, and Llama's high_freq_factor and
low_freq_factor.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

JUMP = 0.001
"""the width of YaRN's ramp if it begins and ends at the same pair, as in the authors' code"""


@dataclass(frozen=True, slots=True)
class RotaryScaling:
    """How the frequencies of rotary positions are scaled."""

    kind: str
    """"linear", "ntk", "yarn" or "llama3" """
    factor: float
    """how many times as long sequences become"""
    original_length: float = math.inf
    """the length of sequences before; of yarn and llama3, as are the next two"""
    fast: float = math.inf
    """how often a pair turns within the original length, at least, to be kept"""
    slow: float = 0.0
    """how often a pair turns within the original length, at most, to be divided by the factor"""
    attention_factor: float = 1.0
    """the factor of cosines and sines, so scores are multiplied by its square"""
    truncate: bool = True
    """whether YaRN's ramp begins and ends at whole numbers"""

    def stretch(self, frequencies: Float[Tensor, "pairs"], base: float) -> Float[Tensor, "pairs"]:
        """Return the scaled frequencies of all pairs."""
        if self.kind == "linear":
            return frequencies / self.factor
        if self.kind == "ntk":
            return frequencies * self.factor ** -_count(frequencies, max(1, len(frequencies) - 1))
        return self.blend(frequencies, self.find_kept(frequencies, base).clamp(0, 1))

    def blend(
        self, frequencies: Float[Tensor, "pairs"], kept: Float[Tensor, "pairs"]
    ) -> Float[Tensor, "pairs"]:
        """Return the frequencies of which these shares are kept, and the others are divided."""
        return kept * frequencies + (1 - kept) * frequencies / self.factor

    def find_kept(self, frequencies: Float[Tensor, "pairs"], base: float) -> Float[Tensor, "pairs"]:
        """Return s, the share of each frequency that yarn or llama3 keeps, before its limits.

        Raises ValueError for a scaling that keeps no share.
        """
        if not self.slow:
            raise ValueError(f"find_kept: {self.kind} scaling without `slow` has no blend")
        if self.kind == "llama3":
            turns = self.original_length * frequencies / (2 * math.pi)
            return (turns - self.slow) / (self.fast - self.slow)
        low, high = self.find_ramp(len(frequencies), base)
        return 1 - (_count(frequencies, 1) - low) / (high - low)

    def find_ramp(self, pairs: int, base: float) -> tuple[float, float]:
        """Return the numbers of the pairs between which YaRN's ramp lies."""
        low, high = (
            pairs * math.log(self.original_length / (2 * math.pi * turns)) / math.log(base)
            for turns in (self.fast, self.slow)
        )
        if self.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, 2 * pairs - 1)
        return low, high + JUMP if low == high else high


def _count(frequencies: Float[Tensor, "pairs"], unit: int) -> Float[Tensor, "pairs"]:
    """Return the numbers of the pairs, from 0, divided by a number."""
    count = torch.arange(len(frequencies), dtype=frequencies.dtype, device=frequencies.device)
    return count / unit
