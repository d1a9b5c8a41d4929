"""Where a study keeps its state: only this module derives the paths that Longtail writes to.

The default study is directly in `$LONGTAIL_HOME`. Any other study, and any quick run, is in `$LONGTAIL_HOME/<study>`.
All studies of one home share the row cache.
"""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from longtail.errors import LongtailError, StudyError

_PACKAGE = Path(__file__).resolve().parents[1]
IS_CLONE = not (_PACKAGE / "shipped").is_dir()
"""Whether this is the project's own folder, where `make` runs. A wheel has the files of that folder in the package."""
PROJECT_ROOT = _PACKAGE.parent if IS_CLONE else _PACKAGE / "shipped"
"""The folder of dbt's project, the studies and Dagster's settings."""
DEFAULT_STUDY_FILE = PROJECT_ROOT / "study.yaml"
N_QUESTIONS = 150
"""What LONGTAIL_QUICK=1 (`make run QUICK=1`) means."""
_SHOWN = 100
RESERVED_NAMES = frozenset(
    {"lake", "build", "published", "indexes", "tuned_models", "row_cache", "dagster", "locks", "cache"}
)
_REFUSED = (
    (re.compile(r"[*?\[\\]"), "must be without * ? [ and \\, which DuckDB reads as a pattern"),
    # it splits the path, and looks for a catalogue of that name
    (re.compile("#"), "must be without #, which dbt reads as the end of the path"),
    # in the address of Dagster's database, %41 would become A: the history of another folder
    (
        re.compile(r"%[0-9A-Fa-f]{2}"),
        "must be without a % before two hexadecimal digits, which Dagster decodes",
    ),
    (re.compile(r"[\ud800-\udfff]"), "must be valid UTF-8"),
)


def longtail_home() -> Path:
    """The folder of all state: `$LONGTAIL_HOME`, or `data` in a clone, or `longtail_data` in the present folder.

    Errors: `LongtailError` if the path cannot be resolved, or if DuckDB or Dagster would read it as another path.
    """
    home = _resolve("LONGTAIL_HOME", PROJECT_ROOT / "data" if IS_CLONE else Path.cwd() / "longtail_data")
    for pattern, why in _REFUSED:
        if pattern.search(str(home)):
            raise LongtailError(f"{str(home)!r}: a home's path {why}; set LONGTAIL_HOME to another folder")
    return home


def keep_caches() -> None:
    """Set the folders of libraries inside the home, unless the user has set them. They are read at import.

    Errors: as `longtail_home`.
    """
    cache = longtail_home() / "cache"
    os.environ.setdefault("HF_HOME", str(cache / "huggingface"))
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache / "torchinductor"))


def study_file() -> Path:
    """The chosen study file: `$LONGTAIL_STUDY`, here or in the project, or the project's `study.yaml`.

    Errors: `LongtailError` if its path cannot be resolved.
    """
    path = _resolve("LONGTAIL_STUDY", DEFAULT_STUDY_FILE)
    return path if path.exists() else in_project(Path(os.environ.get("LONGTAIL_STUDY", "")), path)


def in_project(path: Path, otherwise: Path | None = None) -> Path:
    """A file below the project's folder that is not here: `studies/popqa.yaml` works from any folder."""
    shipped = PROJECT_ROOT / path
    return shipped if not path.exists() and shipped.is_file() else otherwise or path


def read_limit() -> int | None:
    """How many questions the environment allows, if it says so. Errors: `StudyError` where that is no number."""
    limit = os.environ.get("LONGTAIL_LIMIT", "").strip()
    if not limit:
        return None if os.environ.get("LONGTAIL_QUICK", "").strip() in ("", "0") else N_QUESTIONS
    if not (limit.isascii() and limit.isdigit() and int(limit[:9]) >= 1 and len(limit) < 10):
        raise StudyError(f"LIMIT: {limit!r} is not a number of questions, 1 or more")
    return int(limit)


def show_near(path: Path) -> str:
    """A path as a person sees it: from the present folder, if it is below that."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def command(name: str, **options: object) -> str:
    """What a person types for the chosen study, limit and home: `make sql STUDY=mine.yaml LIMIT=50` in a clone, else
    `longtail sql mine.yaml --limit 50`."""
    file, has_home = study_file(), os.environ.get("LONGTAIL_HOME")
    given = {
        "study": "" if file == DEFAULT_STUDY_FILE else show_near(file),
        "limit": read_limit(),
        "home": show_near(longtail_home()) if has_home else "",
        **options,
    }
    chosen = {key: shlex.quote(str(value)) for key, value in given.items() if value}
    if IS_CLONE:
        variables = {key: "LONGTAIL_HOME" if key == "home" else key.upper() for key in chosen}
        return " ".join(["make", name, *(f"{variables[key]}={value}" for key, value in chosen.items())])
    words = (value if key == "study" else f"--{key} {value}" for key, value in chosen.items())
    return " ".join(["longtail", name, *words])


def _resolve(variable: str, default: Path) -> Path:
    chosen = os.environ.get(variable)
    if not chosen:
        return default
    try:
        path = Path(chosen).expanduser().resolve()
        path.exists()  # the file system refuses names that are too long
    except RuntimeError:  # from expanduser, and from circular links
        problem = "names the home folder of a user who is not known, or a link that leads to itself"
    except OSError as error:
        problem = f"is no path that can be opened ({error.strerror})"
    else:
        return path
    shown = chosen if len(chosen) <= _SHOWN else f"{chosen[:_SHOWN]}…"
    raise LongtailError(f"{variable}: {shown!r} {problem}; name another")


class _Below:
    """A path below another one of a home."""

    def __init__(self, folder: str, name: str) -> None:
        self._folder, self._name = folder, name

    def __get__(self, home: StudyHome, _: object) -> Path:
        path: Path = getattr(home, self._folder) / self._name
        return path


@dataclass(frozen=True)
class StudyHome:
    """The folders of one study."""

    home: Path
    root: Path

    @classmethod
    def of(
        cls, study_path: Path, study_name: str, home: Path | None = None, *, is_quick: bool = False
    ) -> StudyHome:
        """The home of the study `study_name`, which was read from `study_path`."""
        base = home or longtail_home()
        is_default = study_path.resolve() == DEFAULT_STUDY_FILE and not is_quick
        return cls(home=base, root=base if is_default else base / study_name)

    lake = _Below("root", "lake")
    indexes = _Below("root", "indexes")
    tuned_models = _Below("root", "tuned_models")
    """The checkpoints of the study's sweep."""
    build = _Below("root", "build")
    build_warehouse = _Below("build", "warehouse.duckdb")
    published = _Below("root", "published")
    published_warehouse = _Below("published", "warehouse.duckdb")
    published_report = _Below("published", "report.html")
    published_answers = _Below("published", "answers.html")
    """The page that the report links to; if the study is large, the files that it loads are in folder `answers`."""
    published_docs = _Below("published", "docs.html")
    published_export = _Below("published", "export")
    """A link to the folder of the newest export."""
    published_router = _Below("published", "router")
    """A link to the folder of the newest routers."""
    published_figures = _Below("published", "figures")
    dagster = _Below("home", "dagster")
    """The history of runs; all studies of this home share it, as they share `runs`, `cache` and `row_cache`."""
    runs = _Below("home", "locks/runs")
    """The locks of the runs in that history."""
    stage_times = _Below("root", "stage_times.json")
    """How long each stage of the study took last time."""
    locks = _Below("root", "locks")
    cache = _Below("home", "cache")
    """HTTP responses and downloads."""
    row_cache = _Below("home", "row_cache")
    """Finished generations."""
