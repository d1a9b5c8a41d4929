"""What `longtail clean-up` does: says what takes room in a home, and removes what a run can make again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from dagster_project.operations import in_one_line
from longtail.errors import LongtailError
from longtail.storage import files
from longtail.storage.home import StudyHome, command, study_file
from longtail.storage.ownership import only_one
from longtail.study.file import load_study

_KEPT = "is kept: nothing else has it"


@dataclass(frozen=True)
class Part:
    """Files and folders with a name, and what becomes of them; they are kept unless `is_removable`."""

    name: str
    paths: tuple[Path, ...]
    if_gone: str
    is_removable: bool = True


@in_one_line
def main(remove: str = "") -> int:
    """Print what takes room, and remove the parts that `remove` names; return the exit code."""
    study = load_study(study_file())
    home = study.home
    parts = [part for part in _parts(home) if any(path.exists() for path in part.paths)]
    wanted = {name.strip() for name in remove.split(",")} - {""}
    removable = [part.name for part in parts if part.is_removable]
    if unknown := sorted(wanted.difference(removable)):
        raise LongtailError(f"--remove: {', '.join(unknown)}: not one of {', '.join(removable) or 'none'}")
    with ExitStack() as locks:
        if wanted:
            _stop_others(home, locks)
        counted: set[int] = set()
        for part in parts:
            size = _megabytes(part.paths, counted)
            for path in part.paths if part.name in wanted else ():
                files.remove(path)
                if path.exists():
                    raise LongtailError(f"{path}: could not be removed whole; let this user write there")
            said = "removed" if part.name in wanted else part.if_gone
            print(f"{size:>10,.1f} MB  {part.name:<28}{said}", flush=True)
    if not parts:
        print(f"{home.root}: nothing is there yet")
    if not wanted and removable:
        print(f"Nothing was removed. `{command('clean-up', remove=removable[-1])}` removes this part.")
    return 0


def _parts(home: StudyHome) -> Iterator[Part]:
    yield Part("lake", (home.lake,), _KEPT, is_removable=False)
    yield Part(
        "row_cache", (home.row_cache,), "is kept for all studies: nothing else has it", is_removable=False
    )
    yield Part("tuned_models", (home.tuned_models,), _KEPT, is_removable=False)
    now = {path.resolve() for path in (home.published_export, home.published_router)}
    versions = sorted((home.published / "versions").glob("*.duckdb"))[:-1]
    versions += [
        one for kind in ("exports", "routers") for one in (home.published / kind).glob("*") if one not in now
    ]
    yield Part(
        "versions", tuple(versions), "earlier publications, which `compare` can read; cannot be made again"
    )
    yield Part("published", (home.published,), "the newest publication is kept", is_removable=False)
    yield Part("indexes", (home.indexes,), "search indexes; the next run makes them again")
    yield Part("build", (home.build,), "the warehouse that is being built; the next run makes it again")
    yield Part(
        "dagster", (home.dagster,), "the history of runs of all studies; the next run begins a new one"
    )
    for path in sorted(home.cache.glob("*")):
        again = "for all studies; a run that needs it fetches or computes it again"
        yield Part(f"cache/{path.name}", (path,), again)


def _stop_others(home: StudyHome, locks: ExitStack) -> None:
    """Hold the locks of all studies of the home. Errors: `LongtailError` where a run or the web interface has one."""
    for root in {home.root, home.home, *(path.parent for path in home.home.glob("*/locks"))}:
        for name in ("run", "ui"):
            path = root / "locks" / f"{name}.lock"
            if root == home.root or path.exists():
                busy = f"{root}: a run or the web interface works there; stop it first"
                locks.enter_context(only_one(path, busy))


def _megabytes(paths: tuple[Path, ...], counted: set[int]) -> float:
    """What files take on the disk; a file with several names is counted once."""
    n_bytes = 0
    for path in paths:
        for file in (path, *path.rglob("*")):
            with suppress(FileNotFoundError):  # a run has removed it meanwhile
                found = file.lstat()
                if found.st_ino not in counted:
                    counted.add(found.st_ino)
                    n_bytes += found.st_blocks * 512
    return n_bytes / 1e6
