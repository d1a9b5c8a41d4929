"""`python -m dagster_project.core.sandbox.train`: train the reference models, then print their gates.

What belongs here: the command line, and which model trains on which core. The work is in `sandbox.training`. The exit
status is 1 if a gate fails; `--ship` then leaves the shipped weights unchanged.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from dagster_project.core.storage.home import longtail_home
from dagster_project.core.study.reference_models import ENCODER_DECODER, FUSION, NAMES, WEIGHTS


def _say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Train, judge and ship; return the exit status."""
    options = _parser().parse_args(arguments)
    folders = {size: options.out / size for size in NAMES if size in options.sizes}
    device = _device(options.device)
    if not options.gates_only:
        _train_all(list(folders), options.out, device)
    return _judge(folders, device, WEIGHTS if options.ship else None)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Train the sandbox's reference models and print their gates."
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=longtail_home() / "cache" / "reference-models",
        help="folder of the trained models, one folder each (default: under $LONGTAIL_HOME)",
    )
    parser.add_argument(
        "--sizes", type=_sizes, default=NAMES, help="comma-separated, of s, m, l, e, f (default: all)"
    )
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--gates-only", action="store_true", help="judge the models in --out as they are")
    parser.add_argument(
        "--ship", action="store_true", help="copy the models into the package if all gates pass"
    )
    return parser


def _sizes(text: str) -> tuple[str, ...]:
    sizes = tuple(text.lower().split(","))
    if unknown := set(sizes) - set(NAMES):
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: use s, m, l, e, f")
    return sizes


def _device(name: str) -> str:
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return name


def _train_all(sizes: list[str], out: Path, device: str) -> None:
    """One process per model, the largest first: several threads speed up small models little, several cores much.

    The model that reads several passages comes last, since it starts as the encoder-decoder.
    """
    n_processes = max(1, min(len(sizes), os.cpu_count() or 1))
    with ProcessPoolExecutor(n_processes, mp_context=get_context("spawn")) as pool:
        for group in ([size for size in reversed(sizes) if size != FUSION], [FUSION] * (FUSION in sizes)):
            for done in [pool.submit(_train_one, size, out, device) for size in group]:
                done.result()


def _train_one(size: str, out: Path, device: str) -> None:
    import torch

    from dagster_project.core.sandbox.training import encoder_decoder, fusion
    from dagster_project.core.sandbox.training.loop import RECIPES, train

    torch.set_num_threads(1)
    if size == ENCODER_DECODER:
        encoder_decoder.train(out / size, device, _say)
    elif size == FUSION:
        trained = out / ENCODER_DECODER
        start = trained if trained.is_dir() else WEIGHTS / ENCODER_DECODER
        fusion.train(start, out / size, device, _say)
    else:
        train(RECIPES[size], out / size, device, _say)


def _judge(folders: dict[str, Path], device: str, weights: Path | None) -> int:
    from dagster_project.core.sandbox.training import fusion_gates
    from dagster_project.core.sandbox.training.gates import judge, table
    from dagster_project.core.sandbox.training.shipping import ship

    gates = judge({size: folder for size, folder in folders.items() if size != FUSION}, device, _say)
    if FUSION in folders:
        gates += fusion_gates.judge(folders[FUSION], device, _say)
    print(table(gates))
    failed = [gate for gate in gates if not gate.is_passed]
    if failed:
        print(f"{len(failed)} of {len(gates)} gates failed; nothing was shipped", file=sys.stderr)
        return 1
    if weights is not None:
        ship(folders, weights)
        print(f"shipped to {weights}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
