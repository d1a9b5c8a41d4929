"""What `make run` prints in the terminal."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import time
from pathlib import Path

import dagster as dg
import pytest
import yaml
from rich.console import Console

from dagster_project.defs.resources import StudyResource
from dagster_project.stages import Stage
from longtail.commands import run
from longtail.commands.display import LOGGERS, Display, StageTimes
from longtail.commands.run import failure_line, is_interrupted
from longtail.storage.home import PROJECT_ROOT
from longtail.storage.lake import Lake, QuarantinedRow
from longtail.study.file import load_study
from tests.flipped_bits import flip_bit
from tests.in_process_dbt import put_parsed
from tests.journeys.commands import environment, run_python
from tests.lakes import LakePlan, make_study


def test_the_ui_shows_the_same_loggers() -> None:
    settings = yaml.safe_load((PROJECT_ROOT / "dagster.yaml").read_text(encoding="utf-8"))["python_logs"]
    assert settings["managed_python_loggers"] == list(LOGGERS)


def test_the_hints_name_the_study_that_ran(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LONGTAIL_HOME", raising=False)
    monkeypatch.setenv("LONGTAIL_STUDY", str(tmp_path / "study.yaml"))
    monkeypatch.chdir(tmp_path)
    own = run._where_next(make_study(tmp_path, LakePlan()), 12.3).splitlines()
    assert own[-1].startswith("  study.yaml   models")
    assert own[-1].endswith("then `make run STUDY=study.yaml` again")
    assert "make sql STUDY=study.yaml" in own[1]
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert f"make ui STUDY={tmp_path / 'study.yaml'}" in run._where_next(
        make_study(tmp_path, LakePlan()), 12.3
    )
    monkeypatch.delenv("LONGTAIL_STUDY")
    monkeypatch.chdir("/")
    default = run._where_next(load_study(PROJECT_ROOT / "study.yaml"), 12.3)
    assert f"  {(PROJECT_ROOT / 'study.yaml').relative_to('/')}   models" in default
    assert default.endswith("then `make run` again")
    assert "STUDY=" not in default
    monkeypatch.setenv("LONGTAIL_QUICK", "1")
    quick = run._where_next(load_study(PROJECT_ROOT / "study.yaml"), 12.3)
    assert "a quick run of at most 150 questions" in quick
    assert quick.endswith("then `make run LIMIT=150` again")


@pytest.mark.parametrize(("raised", "is_interrupt"), [(KeyboardInterrupt, True), (ValueError, False)])
def test_an_interrupt_inside_a_step_is_no_failure_of_the_step(
    raised: type[BaseException], is_interrupt: bool
) -> None:
    """Otherwise Ctrl-C would only skip one model, and the run would go on with the next."""

    @dg.op
    def stopped() -> None:
        if raised is KeyboardInterrupt:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        raise raised

    @dg.job
    def work() -> None:
        stopped()

    outcome = work.execute_in_process(raise_on_error=False)
    assert not outcome.success
    assert is_interrupted(outcome.all_events) == is_interrupt


def test_a_build_that_lacks_memory_says_how_to_give_it_more() -> None:
    @dg.op
    def too_large() -> None:
        raise RuntimeError("Out of Memory Error: failed to allocate data of size 2.0 MiB")

    @dg.job
    def work() -> None:
        too_large()

    said = failure_line(work.execute_in_process(raise_on_error=False).all_events)
    assert said.startswith("too_large: RuntimeError: Out of Memory Error")
    assert said.endswith("LONGTAIL_WAREHOUSE_MEMORY=12GB")


def test_a_run_whose_store_is_wrong_says_so_before_any_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the web interface, too, where nobody has looked for what the study needs."""
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path))
    monkeypatch.setenv("LONGTAIL_OBJECT_STORE", "gs://bucket")

    @dg.op
    def unreached(study: StudyResource) -> None:
        raise AssertionError(study)

    @dg.job(resource_defs={"study": StudyResource()})
    def work() -> None:
        unreached()

    said = failure_line(work.execute_in_process(raise_on_error=False).all_events)
    assert (
        said == "this is no address of a store: set LONGTAIL_OBJECT_STORE to s3://bucket/folder, without keys"
    )


def test_what_a_failed_model_has_from_before_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may belong to another study: the warehouse would show it as today's."""
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path))
    study = load_study(PROJECT_ROOT / "study.yaml")
    lake = Lake(study.home.lake)
    rejected = [QuarantinedRow("row", "reason", "raw")]
    made = ["m|bm25", "m|dense", "other|bm25", "m_2|bm25"]
    for partition in made:
        lake.write("answers", [], fingerprint="then", partition=partition, quarantined=rejected)
    before = run._files_of(lake, Stage("answers of m", ("lake/answers",), model="m"))
    lake.write("answers", [], fingerprint="now", partition="m|dense", quarantined=rejected)
    run.discard(lake, before)
    assert lake.partitions("answers") == ["m_2|bm25", "m|dense", "other|bm25"]
    assert lake.partitions("quarantine") == [
        f"answers|{one}" for one in ("m_2|bm25", "m|dense", "other|bm25")
    ]


ONE_STAGE = """
import dagster as dg
from longtail.commands import run
from longtail.storage.home import DEFAULT_STUDY_FILE
from longtail.study.file import load_study
from dagster_project.stages import Stage

study = load_study(DEFAULT_STUDY_FILE)

@dg.asset
def made(context):  # without a resource, which would take the lock, too
    assert [path.stem for path in study.home.runs.iterdir()] == [context.run_id]

with dg.instance_for_test() as instance:
    assert run.run_stage(dg.Definitions([made]), instance, study, Stage("made", ("made",))) is None
    (only,) = instance.get_runs()
    assert only.tags["longtail/study"] == study.name
assert not list(study.home.runs.iterdir())
"""


def test_a_run_names_its_study_and_has_its_lock_before_it_begins(tmp_path: Path) -> None:
    """A kill may come before the first resource: homes that share a history mark only runs that they know.

    In a process of its own, whose standard error Dagster may take.
    """
    done = run_python("-c", ONE_STAGE, env=environment(tmp_path))
    assert done.returncode == 0, done.stderr


def test_what_another_machine_removed_is_not_finished_and_no_stage_meets_what_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model has failed there: without this, the run would end well without the model's rows."""
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path))
    study = load_study(PROJECT_ROOT / "study.yaml")
    put_parsed(study.home.home, study.path)
    lake, synchronised = Lake(study.home.lake), []
    lake.write("answers", [], fingerprint="then", partition="reference_m|dense")
    flip_bit(lake.path("answers", "reference_m|dense"))

    def answer(definitions: object, instance: object, study: object, stage: Stage) -> None:
        lake.require_intact()
        for method in ("bm25", "oracle"):
            lake.write("answers", [], fingerprint="now", partition=f"{stage.model}|{method}")

    def synchronise(self: Lake) -> None:
        synchronised.append(self)
        if len(synchronised) == 3:
            lake.discard("answers", "reference_s|bm25")

    of_models = [Stage(f"answers of {m}", ("lake/answers",), model=m) for m in ("reference_s", "reference_m")]
    for name, replacement in {
        "plan": lambda *_: [*of_models, Stage("warehouse", ("warehouse",), is_output=True)],
        "run_stage": answer,
        "_publish": lambda *_: None,
        "open_instance": lambda *_: contextlib.nullcontext(),
    }.items():
        monkeypatch.setattr(run, name, replacement)
    monkeypatch.setattr(Lake, "synchronise", synchronise)
    display = Display(Console(file=io.StringIO()), StageTimes(tmp_path / "times"))
    failed = run.materialise(study, display)
    assert failed == {
        "reference_s": "answers of reference_s: another machine, where it failed, removed results"
    }
