#!/usr/bin/env bash
# Gradescope runs this once, as root, while it builds the image in which it grades.
set -euo pipefail
source="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
venv="$source/venv"
# CPU builds of torch: those on PyPI bring gigabytes of CUDA along.
torch="${TORCH_INDEX-https://download.pytorch.org/whl/cpu}"

# The Python with which the archive was made comes first: the versions were tried with it.
choose() {
    for python in python@PYTHON@ python3.13 python3.12 python3.11; do
        if command -v "$python" && "$python" -c 'import venv, ensurepip'; then return; fi
    done
    return 1
}

if [ ! -x "$venv/bin/python" ]; then
    if ! python="$(choose 2>/dev/null)"; then
        # The images are of Ubuntu, whose own Python may be older than 3.11.
        apt-get update
        apt-get install -y software-properties-common
        add-apt-repository -y ppa:deadsnakes/ppa
        apt-get install -y python@PYTHON@ python@PYTHON@-venv
        python="$(choose)"
    fi
    "$python" -m venv "$venv"
fi
"$venv/bin/python" -m pip install --no-cache-dir ${torch:+--extra-index-url "$torch"} \
    -c "$source/constraints.txt" "$(echo "$source"/headcheck-*.whl)[student]"

# For whoever reads the log of the build: with how much care submissions will be run.
"$venv/bin/headcheck" doctor || true
