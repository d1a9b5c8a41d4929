"""The tiny study of `everything` on disks that are full, without inodes or read-only, in a home that is hard to name, and
under a clock that jumps.

    unshare --mount --map-root-user python -m tests.journeys.hard_places full FOLDER [stage …] [free kibibytes …]
    unshare --mount --map-root-user python -m tests.journeys.hard_places inodes FOLDER [stage …] [free inodes …]
    unshare --mount --map-root-user python -m tests.journeys.hard_places read-only FOLDER
    python -m tests.journeys.hard_places names FOLDER
    python -m tests.journeys.hard_places clock FOLDER

FOLDER is new. `full` and `inodes` begin each of `STAGES` with so much room, once for each number, and then give room.
Each failure must be one line that says to make room; in the end, the lake must be that of an undisturbed run. One JSON
line per try, and a summary. It takes half an hour and is no test: the suite tries fewer places (`test_small_study`).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from longtail.storage.lake import Lake
from tests.journeys.commands import PROJECT, command, environment, run_python, run_study, start_study
from tests.journeys.everything import write_everything
from tests.journeys.growing_disk import contents

STAGES = (
    "questions",  # embeddings of paraphrases
    "retrieval",  # passages and indexes
    "tuning",
    "answers of small",
    "sampled answers of small",
    "grounded generations of small",
    "candidate answers of small",
    "answer embeddings of small",
    "candidate answers of reader",
    "grounding",  # portrait
    "quip scores of small",
)
FREE = {"full": (0, 4, 16, 48, 96, 160, 256, 512, 1_024, 4_096), "inodes": (0, 1, 2, 3, 5, 8, 12, 16, 24, 40)}
ROOMY = {"full": "size=3g", "inodes": "nr_inodes=100k"}
HARD_NAME = "a b%c de'f\"g é & (h)"  # % before two hexadecimal digits, ? * [ \\ and # are refused by name
_TITLE = re.compile(r"\[\d+/\d+\] (.*)")


def main(kind: str, folder: Path, stages: list[str], free: list[int]) -> None:
    folder.mkdir(parents=True)
    if kind in ("names", "clock"):
        (_hard_name if kind == "names" else _jumping_clock)(folder)
        return
    disk = folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3g", "tmpfs", str(disk)], check=True)
    study = write_everything(folder)
    if kind == "read-only":
        _read_only(disk, study)
        return
    tries = [
        one for stage in stages or STAGES for one in _tries(kind, disk, study, stage, free or FREE[kind])
    ]
    expected = _lake_of(folder / "undisturbed", study)
    found = _lake_of(disk / "home", study)
    bad = [one for one in tries if one["code"] and not one["is_clear"]]
    failed = [one for one in tries if one["code"]]
    print(json.dumps({"tries": len(tries), "failed": len(failed), "unclear": len(bad),
                      "partitions": len(expected), "differing": sorted(k for k in expected.keys() | found.keys()
                                                                       if expected.get(k) != found.get(k))}))  # fmt: skip


def _tries(
    kind: str, disk: Path, study: Path, stage: str, free: tuple[int, ...] | list[int]
) -> Iterator[dict]:
    """Run up to the end of `stage`, once for each of `free`, until it succeeds; then the disk has room again."""
    for room in free:
        _remount(disk, ROOMY[kind])
        process = start_study(disk / "home", study, LONGTAIL_THREADS="1")
        said: list[str] = []
        began = ended_well = False
        for line in process.stdout:
            said.append(line)
            title = _TITLE.match(line)
            if began and title and not title[1].startswith(stage):
                ended_well = True
                break
            if title and title[1].startswith(stage):
                began = True
                _leave(kind, disk, room)
        if not ended_well:
            process.wait(60)
        process.kill()
        errors = [line.strip() for line in said if line.startswith("error: ") or "Traceback" in line]
        told = {
            "stage": stage,
            "free": room,
            "code": 0 if ended_well else process.returncode,
            "errors": errors,
        }
        told["is_clear"] = len(errors) == 1 and bool(
            re.search("disk is full|No space left|make room", errors[0])
        )
        print(json.dumps(told), flush=True)
        yield told
        if ended_well:
            break
    _remount(disk, ROOMY[kind])


def _leave(kind: str, disk: Path, room: int) -> None:
    """Leave so many kibibytes, or so many inodes."""
    for _ in range(20):  # the study writes on meanwhile: what is used may have grown
        found = os.statvfs(disk)
        used = (found.f_blocks - found.f_bfree) * found.f_frsize // 1024
        option = (
            f"size={used + room}k" if kind == "full" else f"nr_inodes={found.f_files - found.f_ffree + room}"
        )
        with contextlib.suppress(subprocess.CalledProcessError):
            _remount(disk, option)
            return
    raise RuntimeError(f"{disk}: could not be made small")


def _remount(disk: Path, option: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{option}", str(disk)], check=True)


def _lake_of(home: Path, study: Path) -> dict[str, str]:
    """Run up to the warehouse; the content of each partition that is not a measurement of time or made with it."""
    from tests.journeys.commands import run_up_to_the_warehouse

    run_up_to_the_warehouse(home, study, LONGTAIL_THREADS="1")
    left_out = {"single_latencies", "tuned_models"}  # a time; the home's folder
    found = contents(Lake(home / "everything/lake"))
    return {key: content for key, content in found.items() if key.split()[0] not in left_out}


def _read_only(disk: Path, study: Path) -> None:
    """An empty home, a finished home, and one that becomes read-only in mid-run."""
    home = disk / "home"
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    _say("run, empty home", run_study(home, study))
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    _say("run", run_study(home, study))
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    _say("run, finished home", run_study(home, study))
    for arguments in (("-m", "longtail", "sql", "-c", "select count(*) as n from fct_answers"),):
        _say("sql, finished home", run_python(*arguments, env=environment(home, study)))


def _hard_name(folder: Path) -> None:
    """A home and a study below a folder with a hard name, with 256 open files at most."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    hard = folder / HARD_NAME
    hard.mkdir()
    study = write_everything(hard)
    home = hard / "home"
    _say("run", run_study(home, study, timeout=3_000))
    _say("run again", run_study(home, study))
    query = "select count(*) as n, count(distinct model) as models from fct_answers"
    _say("sql", run_python("-m", "longtail", "sql", "-c", query, env=environment(home, study)))
    report = home / "everything/published/report.html"
    print(json.dumps({"report": report.exists() and report.stat().st_size}))
    shutil.rmtree(hard / "home", ignore_errors=True)


def _jumping_clock(folder: Path) -> None:
    """A clock that goes a day forward and back every three seconds, by libfaketime (Debian's package faketime)."""
    study = write_everything(folder)
    (library,) = Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")
    offset = folder / "offset"
    jumping = {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(offset),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "LONGTAIL_THREADS": "1",  # as the undisturbed run: several threads change last digits
    }
    offset.write_text("+0d\n")
    home = folder / "home"
    with (folder / "said").open("w") as said:
        process = subprocess.Popen(
            command("run"),
            cwd=PROJECT,
            env=environment(home, study, **jumping),
            stdout=said,
            stderr=said,
        )
        jumps = 0
        while process.poll() is None:
            time.sleep(3)
            jumps += 1
            offset.write_text(("+1d\n", "-1d\n")[jumps % 2])
    found, expected = _lake_of(home, study), _lake_of(folder / "undisturbed", study)
    lines = (folder / "said").read_text(encoding="utf-8").splitlines()
    told = {
        "code": process.returncode,
        "jumps": jumps,
        "has_trace": any("Traceback" in line for line in lines),
    }
    differing = sorted(key for key in expected.keys() | found.keys() if expected.get(key) != found.get(key))
    print(json.dumps({**told, "partitions": len(expected), "differing": differing, "last": lines[-1:]}))


def _say(what: str, done: subprocess.CompletedProcess[str]) -> None:
    said = done.stdout + done.stderr
    told = {
        "what": what,
        "code": done.returncode,
        "has_trace": "Traceback" in said,
        "errors": done.stderr.splitlines()[-5:],
        "tail": [line for line in said.splitlines() if line.strip()][-4:],
    }
    print(json.dumps(told, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    more = sys.argv[3:]
    numbers = [int(one) for one in more if one.isdigit()]
    main(sys.argv[1], Path(sys.argv[2]), [one for one in more if not one.isdigit()], numbers)
