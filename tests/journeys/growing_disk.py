"""A study on a full disk that grows step by step until the study succeeds.

`unshare --mount python -m tests.journeys.growing_disk STUDY FOLDER MEBIBYTES…` runs the study once per size and prints
one JSON line per run. It ends when a run succeeds. After the first run, `FOLDER/parsed` is put into the disk: it holds
what a parse of the dbt project would leave there.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from longtail.storage.lake import Lake
from longtail.tables import TABLES
from tests.journeys.commands import run_study
from tests.small_disk import SmallDisk


def main(study: Path, folder: Path, sizes: list[float]) -> None:
    disk = SmallDisk.of(folder / "disk", sizes[0])
    home = disk.folder / "home"
    for size in sizes:
        disk.resize(size)
        done = run_study(home, study, timeout=900)
        stages = [line for line in done.stdout.splitlines() if line.startswith("[")]
        attempt = {
            "mebibytes": size,
            "code": done.returncode,
            "stage": stages[-1] if stages else "start",
            "errors": done.stderr.splitlines(),
            "has_trace": "Traceback" in done.stdout + done.stderr,
            "contents": contents(Lake(home / "small/lake")),
        }
        print(json.dumps(attempt), flush=True)
        if not done.returncode:
            return
        if size == sizes[0]:
            disk.resize(max(sizes))
            shutil.copytree(folder / "parsed", disk.folder, dirs_exist_ok=True)


def contents(lake: Lake) -> dict[str, str]:
    """By table and partition: the hash of the rows, without the columns about the run."""
    parts = [(table, partition) for table in TABLES for partition in lake.partitions(table)]
    return {f"{table} {partition}": lake.content(table, partition) for table, partition in parts}


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), [float(size) for size in sys.argv[3:]])
