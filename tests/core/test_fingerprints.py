"""Versions of code: what a change makes stale, and what it does not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import dagster_project
from dagster_project.core.fingerprints import CANNOT_CHANGE_ROWS, code_version, fingerprint, folder_version

CORE = "dagster_project.core"
STAGES = (
    f"{CORE}.wikimedia.ingest",
    f"{CORE}.wikimedia.page_views",
    f"{CORE}.wikimedia.page_view_origins",
    f"{CORE}.imports.answers",
    f"{CORE}.questions.build",
    f"{CORE}.questions.reword",
    f"{CORE}.questions.candidates",
    f"{CORE}.retrieval.passages",
    f"{CORE}.retrieval.retrieve",
    f"{CORE}.embedding.answers",
    f"{CORE}.reference.mentions",
    f"{CORE}.statistics.adaptive_gains",
    f"{CORE}.sandbox.content",
)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The project's code, to be changed."""
    shutil.copytree(
        Path(dagster_project.__file__).parent,
        tmp_path / "dagster_project",
        ignore=shutil.ignore_patterns("weights", "__pycache__"),
    )
    return tmp_path


def versions(root: Path) -> dict[str, str]:
    return {stage: code_version(stage, root=root) for stage in STAGES}


def changed(root: Path, file: str, old: str, new: str) -> set[str]:
    """The stages that a change of `file` makes stale."""
    before = versions(root)
    path = root / "dagster_project" / "core" / file
    text = path.read_text()
    assert text.count(old) == 1, file
    path.write_text(text.replace(old, new))
    after = versions(root)
    return {stage.removeprefix(f"{CORE}.") for stage in STAGES if before[stage] != after[stage]}


def test_a_comment_a_docstring_and_layout_make_nothing_stale(copied: Path) -> None:
    file, definition = "wikimedia/protocols/entities.py", "def read_entity("
    assert not changed(copied, file, definition, f"# a remark\n\n{definition}")
    assert not changed(copied, file, '"""One entity from its JSON;', '"""An entity, out of its JSON;')


def test_a_formula_makes_stale_what_depends_on_it_and_nothing_else(copied: Path) -> None:
    stale = changed(copied, "questions/sampling.py", "np.exp(8 * draw - 6)", "np.exp(8 * draw - 5)")
    assert stale == {"questions.candidates"}
    stale = changed(copied, "wikimedia/protocols/page_views.py", "10**12", "10**13")
    assert stale == {"wikimedia.page_view_origins", "wikimedia.page_views"}
    stale = changed(copied, "sandbox/randomness.py", "def mix(", "def mix_(")
    assert stale == {"sandbox.content"}


def test_modules_that_were_forgotten_once_are_covered(copied: Path) -> None:
    """`asked` decides which questions there are, `draw` which of them a dataset asks."""
    for file, old, new in (
        (
            "wikimedia/asked.py",
            'columns=["subject_id", "property_id"]',
            'columns=["property_id", "subject_id"]',
        ),
        ("questions/build.py", "sorted(rows, key=place)[:limit]", "sorted(rows, key=place)[-limit:]"),
    ):
        assert "questions.build" in changed(copied, file, old, new)


def test_what_cannot_change_rows_makes_nothing_stale(copied: Path) -> None:
    assert not changed(
        copied, "wikimedia/transport/limits.py", "interval_s: float = 0.3", "interval_s: float = 0.4"
    )
    assert not changed(copied, "progress.py", "_EVERY_S = 2.0", "_EVERY_S = 3.0")


def test_what_is_left_out_exists() -> None:
    core = Path(dagster_project.__file__).parent / "core"
    for name in CANNOT_CHANGE_ROWS:
        path = core / name.replace(".", "/")
        assert path.is_dir() or path.with_suffix(".py").is_file(), name


def test_a_stage_may_leave_out_what_it_does_not_use_for_its_rows(copied: Path) -> None:
    truthy = f"{CORE}.wikimedia.dumps.truthy"
    ingest = f"{CORE}.wikimedia.ingest"
    before = code_version(ingest, root=copied), code_version(ingest, without=[truthy], root=copied)
    (copied / "dagster_project/core/wikimedia/dumps/truthy.py").write_text("X = 1\n")
    after = code_version(ingest, root=copied), code_version(ingest, without=[truthy], root=copied)
    assert (before[0] != after[0], before[1] == after[1]) == (True, True)


def test_a_folder_counts_its_pages_scripts_too(copied: Path) -> None:
    before = folder_version(f"{CORE}.report", copied)
    chart = copied / "dagster_project/core/report/page/chart.js"
    chart.write_text(chart.read_text() + "\n// drawn anew\n")
    assert folder_version(f"{CORE}.report", copied) != before


def test_fingerprints_tell_values_apart() -> None:
    assert fingerprint("a", ["b"]) == fingerprint("a", ["b"])
    assert fingerprint("a", "b") != fingerprint("ab")
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
