"""The costs of tools as dots on a logarithmic scale."""

from collections.abc import Sequence
from pathlib import Path

OUR_COLOUR, PEER_COLOUR = "#0072B2", "#D55E00"
"""Blue and vermilion: told apart with any kind of colour vision. The marker differs, too."""


def draw(names: Sequence[str], seconds: Sequence[float], path: Path) -> None:
    """Seconds of processor time of a submission, by tool; the first one is ours."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams["svg.hashsalt"] = "headcheck"  # else every drawing has other identifiers
    figure, axis = plt.subplots(figsize=(8, 0.4 * len(names) + 1.2))
    order = sorted(range(len(names)), key=lambda i: seconds[i], reverse=True)
    for row, i in enumerate(order):
        colour, marker = (OUR_COLOUR, "D") if i == 0 else (PEER_COLOUR, "o")
        axis.plot(seconds[i], row, marker, color=colour, markersize=9)
        axis.annotate(
            f"{seconds[i]:.2g} s",
            (seconds[i], row),
            (9, 0),
            textcoords="offset points",
            va="center",
        )
    axis.set_yticks(range(len(order)), [names[i] for i in order])
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter("{x:g}")
    axis.set_xlim(min(seconds) / 2, max(seconds) * 2.5)
    axis.set_xlabel("processor seconds for each submission, logarithmic")
    axis.grid(axis="x", which="both", linewidth=0.4)
    axis.set_axisbelow(True)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
