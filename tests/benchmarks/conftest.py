"""The benchmarks lie beside the project and are not installed with it."""

import sys
from pathlib import Path

# At the end: all that is installed is taken from where it is installed.
sys.path.append(str(Path(__file__).parents[2]))
