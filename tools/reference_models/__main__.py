"""`python -m tools.reference_models`: train the reference models, then print their gates.

The exit status is 1 if a gate fails; `--ship` then leaves the shipped weights unchanged.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from longtail.processes import end_with_parent
from longtail.storage.checksums import RECORD, file_checksum
from longtail.storage.home import longtail_home
from longtail.study.model_files import ENCODER_DECODER, FUSION, INSTRUCTION_TUNED, NAMES, SIZES, WEIGHTS

_STARTS = {FUSION: ENCODER_DECODER, INSTRUCTION_TUNED: SIZES[0]}
"""The models that are other models trained further."""


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
        prog="python -m tools.reference_models",
        description="Train the sandbox's reference models and print their gates.",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=longtail_home() / "cache" / "reference-models",
        help="folder of the trained models, one folder each (default: under $LONGTAIL_HOME)",
    )
    parser.add_argument(
        "--sizes", type=_sizes, default=NAMES, help=f"comma-separated, of {', '.join(NAMES)} (default: all)"
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
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: use {', '.join(NAMES)}")
    return sizes


def _device(name: str) -> str:
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return name


def _train_all(sizes: list[str], out: Path, device: str) -> None:
    """One process per model, the largest first: several threads speed up small models little, several cores much.

    Models that are others trained further come last.
    """
    n_processes = max(1, min(len(sizes), os.cpu_count() or 1))
    with ProcessPoolExecutor(n_processes, get_context("spawn"), end_with_parent) as pool:
        for is_later in (False, True):
            group = [size for size in reversed(sizes) if (size in _STARTS) == is_later]
            for done in [pool.submit(_train_one, size, out, device) for size in group]:
                done.result()


def _train_one(size: str, out: Path, device: str) -> None:
    import torch

    from tools.reference_models import encoder_decoder, fusion, instructions
    from tools.reference_models.loop import RECIPES, train

    torch.set_num_threads(1)
    if size == ENCODER_DECODER:
        encoder_decoder.train(out / size, device, _say)
    elif size == FUSION:
        fusion.train(_start_of(size, out), out / size, device, _say)
    elif size == INSTRUCTION_TUNED:
        instructions.train(_start_of(size, out), out / size, device, _say)
    else:
        train(RECIPES[size], out / size, device, _say)


def _start_of(size: str, out: Path) -> Path:
    """The folder of the model that `size` is trained further from: newly trained, else as shipped."""
    trained = out / _STARTS[size]
    return trained if trained.is_dir() else WEIGHTS / _STARTS[size]


def _judge(folders: dict[str, Path], device: str, weights: Path | None) -> int:
    from tools.reference_models import fusion_gates, instructions
    from tools.reference_models.gates import judge, table

    gates = judge({size: folder for size, folder in folders.items() if size not in _STARTS}, device, _say)
    if FUSION in folders:
        gates += fusion_gates.judge(folders[FUSION], device, _say)
    if INSTRUCTION_TUNED in folders:
        own = folders[INSTRUCTION_TUNED]
        gates += instructions.judge(own, _start_of(INSTRUCTION_TUNED, own.parent), device, _say)
    print(table(gates))
    failed = [gate for gate in gates if not gate.is_passed]
    if failed:
        print(f"{len(failed)} of {len(gates)} gates failed; nothing was shipped", file=sys.stderr)
        return 1
    if weights is not None:
        ship(folders, weights)
        print(f"shipped to {weights}")
    return 0


def ship(folders: dict[str, Path], weights: Path) -> None:
    """Replace the models in `weights` by those in `folders` (size → folder) and write their checksums."""
    for size, folder in folders.items():
        target = weights / size
        staged = weights / f".{size}.new"
        shutil.rmtree(staged, ignore_errors=True)
        shutil.copytree(folder, staged)
        shutil.rmtree(target, ignore_errors=True)
        staged.rename(target)
    sums = [
        f"{file_checksum(path)}  {path.relative_to(weights).as_posix()}\n"
        for path in sorted(weights.glob("[a-z]/*"))
        if path.is_file()
    ]
    (weights / RECORD).write_text("".join(sums), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
