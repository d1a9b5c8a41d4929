"""The wheel: installed away from the clone, it runs a small study and opens the result, as docs/python.md and
docs/router.md say."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.in_process_dbt import put_parsed
from tests.journeys.commands import PROJECT
from tests.pages import TINY_STUDY, blocks
from tests.warehouses import documentation

pytestmark = pytest.mark.journey

HERE = {
    "studies/popqa_real.yaml": "tiny.yaml",
    "mine.yaml": "tiny.yaml",
    "--limit 50": "--limit 24",
    "limit=50": "limit=24",
}
"""Other studies than those of the pages, which need what this machine may not have."""
ROUTER = "sandbox.zero_shot.reference_l.closed_book.bm25"
OPENED = """
import os
from pathlib import Path
assert published == Path("longtail_data/tiny_limit_24/published").resolve(), published
assert warehouse.sql("from fct_accuracy").df().n.max() == 24
print(warehouse.sql("select method, count(*) from fct_answers group by all order by all").fetchall())
print(longtail.load_study("studies/popqa.yaml").name)
os.renames(next(published.glob("router/*.json")), "data/published/router/ROUTER.json")
""".replace("ROUTER", ROUTER)


def run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """A command in `folder`, which knows nothing of the clone."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if key == "LONGTAIL_THREADS" or not key.startswith(("LONGTAIL_", "PYTHON", "DAGSTER"))
    }
    done = subprocess.run(arguments, cwd=folder, env=kept, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done


def edited(text: str) -> str:
    """A page's commands or code, for the study of this test."""
    for there, here in HERE.items():
        text = text.replace(there, here)
    return text


def times(folder: Path) -> dict[Path, int]:
    """When each file and folder changed, except Python's compiled files."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if "__pycache__" not in path.parts}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of the working tree, built from a copy of it, because a build writes beside its sources."""
    folder = tmp_path_factory.mktemp("wheel")
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = run(listed, PROJECT).stdout.split("\0")
    for name in filter(lambda name: (PROJECT / name).is_file(), names):
        (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PROJECT / name, folder / "source" / name)
    offline = ["--no-deps", "--no-index", "--no-build-isolation"]
    run([sys.executable, "-m", "pip", "wheel", *offline, "-w", str(folder), "."], folder / "source")
    return next(folder.glob("*.whl"))


def test_the_wheel_holds_the_project_and_nothing_of_its_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for needed in (
        "shipped/dbt/dbt_project.yml", "shipped/dbt/profiles.yml", "shipped/study.yaml", "shipped/studies/popqa.yaml",
        "shipped/dagster.yaml", "shipped/pyproject.toml", "py.typed",
        "report/page/chart.js", "study/prices.csv", "sandbox/weights/s/model.safetensors",
    ):  # fmt: skip
        assert f"longtail/{needed}" in names
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"dagster_project", "longtail"}
    inside = {name.removeprefix("longtail/shipped/") for name in names if "/shipped/dbt/" in name}
    written = {str(path.relative_to(PROJECT)) for path in (PROJECT / "dbt").rglob("*") if path.is_file()}
    assert inside == {
        name for name in written if not name.startswith(("dbt/target", "dbt/logs", "dbt/.user"))
    }


def test_away_from_the_clone_it_runs_a_study_and_opens_the_result(wheel: Path, tmp_path: Path) -> None:
    fresh, there = tmp_path / "fresh", tmp_path / "there"
    run([sys.executable, "-m", "venv", "--without-pip", str(fresh)], tmp_path)
    pip = [sys.executable, "-m", "pip", "--python", str(fresh / "bin/python")]
    run([*pip, "install", "--no-deps", "--no-index", str(wheel)], tmp_path)
    (packages,) = fresh.glob("lib/python*/site-packages")
    # The libraries of this Python, without the lines of .pth files, through which the clone would be found.
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    for compiled in (PROJECT / "longtail").rglob("__pycache__/kernels.*.nb?"):  # of the same files, by numba
        source = compiled.parents[1] / "kernels.py"
        shutil.copystat(source, packages / source.relative_to(PROJECT))
        shutil.copy(compiled, packages / compiled.relative_to(PROJECT))
    before = times(packages / "longtail/shipped")
    there.mkdir()
    (there / "tiny.yaml").write_text(TINY_STUDY)
    # What depends on the dbt project alone is there before, and is taken where it is that of the wheel's.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LONGTAIL_LIMIT", "24")
        put_parsed(there / "longtail_data", there / "tiny.yaml")
    page = there / "longtail_data/tiny_limit_24/published/docs.html"
    page.parent.mkdir()
    shutil.copyfile(documentation(), page)
    shell, opening = (edited(text) for text in blocks(PROJECT / "docs/python.md"))
    made, installed, ran, asked = shell.splitlines()
    assert made.startswith("python -m pip wheel --no-deps .")  # as the fixture and the lines above, offline
    assert installed.startswith("python -m pip install")
    assert ran.startswith("longtail run tiny.yaml --limit 24")  # as `longtail.run` in the code
    deciding = blocks(PROJECT / "docs/router.md")[0]
    opened = run([str(fresh / "bin/python"), "-c", opening + OPENED + deciding], there).stdout
    assert opened.splitlines()[-2:] == ["[('bm25', 24), ('closed_book', 24)]", "popqa"]
    assert "longtail sql tiny.yaml --limit 24" in opened
    assert "make " not in opened
    command, *words = shlex.split(asked)
    assert "closed_book" in run([str(fresh / "bin" / command), *words], there).stdout
    report = there / "longtail_data/tiny_limit_24/published/report.html"
    assert "chart" in report.read_text(encoding="utf-8")
    assert times(packages / "longtail/shipped") == before
