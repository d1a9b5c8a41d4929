"""`python -m dagster_project.core.sandbox.train`: train the reference models, then print their gates.

Here: the command line. The work is in `training/`.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path


def _say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="s,m,l")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args(arguments)
    import torch

    from dagster_project.core.sandbox.training.loop import RECIPES, train

    torch.set_num_threads(options.threads)
    device = options.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    for size in options.sizes.lower().split(","):
        train(RECIPES[size], options.out / size, device, _say)
    return 0


if __name__ == "__main__":
    sys.exit(main())
