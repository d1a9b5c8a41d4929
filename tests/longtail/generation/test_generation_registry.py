"""Backends by name: declared capabilities, no engine imported to look, scripts of the fake one; and the first accuracy,
which stands in the log as soon as a partition of answers is written."""

from __future__ import annotations

import dataclasses
import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest
from small_study import small_study

from longtail.errors import BackendError
from longtail.generation.backends.base import Scored, entry, load_backend
from longtail.generation.tasks.registry import tell_accuracy
from longtail.preflight import misses
from longtail.storage.lake import Lake, Outcome
from longtail.study.backends import BACKENDS, CAPABILITIES, GENERATE, LOCAL_KEYS, STREAM, Backend
from longtail.study.models import Model
from longtail.study.prompts import Prompt
from longtail.study.study import Study
from tests.lakes import LakePlan, make_lake

ROOT = Path(__file__).resolve().parents[3]
LOG = logging.getLogger("provisional")


def fake(path: str) -> Model:
    return Model(name="f", path=path, backend="fake")


@pytest.mark.parametrize("name", sorted(name for name, backend in BACKENDS.items() if backend.generates))
def test_declared_capabilities_are_the_classes_own(name: str) -> None:
    declared = BACKENDS[name]
    assert declared.load().capabilities == declared.capabilities <= CAPABILITIES


def test_looking_up_and_identifying_import_no_engine(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"\x02" + bytes(7) + b"{}")
    code = (
        "import sys\n"
        "from longtail.generation.tasks import registry as tasks\n"
        "from longtail.generation.backends import base, hf, fake\n"
        "from longtail.study.models import Model\n"
        f"base.identify(Model(name='t', path={str(tmp_path)!r}))\n"
        "print([m for m in ('torch', 'transformers', 'tokenizers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_an_unknown_backend_or_capability_is_said_before_loading() -> None:
    with pytest.raises(
        BackendError,
        match="unknown backend 'vllm'; use one of: fake, fusion_in_decoder, openai, transformers",
    ):
        load_backend(Model(name="m", path="/no/such", backend="vllm"))
    with pytest.raises(
        BackendError, match="backend transformers cannot stream; backends that can: fake, openai"
    ):
        entry(Model(name="m", path="/no/such"), STREAM)
    assert entry(fake("fake:echo")).capabilities == CAPABILITIES


def test_the_scripted_answer_is_the_likeliest_candidate() -> None:
    (scored,) = load_backend(fake("fake:echo")).score(["Q: Who? A:"], [[" He", " Who?", " No one"]])
    assert isinstance(scored, Scored)
    assert max(scored.scores, key=lambda score: score.mean) == scored.scores[1]


def assert_missing(study: Study, message: str | None) -> None:
    """That the model is the one thing missing, with this message; or that nothing is."""
    found = misses(study)
    assert len(found) == (message is not None), found
    assert message is None or (found[0].startswith("models[0]: ") and re.search(message, found[0]))


@pytest.mark.parametrize(
    ("kind", "generations", "message"),
    [
        ("transformers", ("questions",), "there is no folder /no/such, and no hub id looks like it"),
        ("openai", ("questions", "samples"), "backend openai needs the key service, with base_url"),
        ("vllm", ("paraphrases",), "unknown backend 'vllm'"),
        ("writes_only", ("questions",), None),
        ("writes_only", ("questions", "samples"), "backend writes_only cannot sample; backends that can: "),
    ],
)
def test_what_the_study_asks_is_checked_before_anything_loads(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    generations: tuple[str, ...],
    message: str | None,
) -> None:
    writes_only = Backend("no.such.module:Backend", frozenset({GENERATE}), LOCAL_KEYS)
    monkeypatch.setitem(BACKENDS, "writes_only", writes_only)
    study = small_study(tmp_path, "/no/such", backend=kind)
    study = dataclasses.replace(study, prompts=(Prompt("p", generations=generations),))
    assert_missing(study, message)


@pytest.mark.parametrize(
    ("kind", "path", "message"),
    [
        ("transformers", "sandbox:xl", "model tiny: unknown reference model 'xl': use one of s, m, l"),
        ("transformers", "sandbox:s", None),
        ("transformers", "{here}/folder/tinny", "there is no folder .*tinny, and no hub id looks like it"),
        ("transformers", "{here}/folder/tiny", None),
        ("transformers", "{here}/folder", "folder lacks config.json, which every model's folder holds"),
        ("transformers", "./folder", "there is no folder .*/folder, and no hub id looks like it"),
        ("transformers", "~nobody_has_this_name/tiny", "names no folder"),
        ("transformers", "x" * 4_000, "names no folder .*File name too long"),
        ("transformers", "org/name", "model tiny: org/name is no folder, not in the local hub cache"),
        ("fake", "{here}/folder/tiny", "fake script .*tiny cannot be read"),
        ("fake", "fake:gold", "rule: Input should be 'digest', 'passage' or 'echo'"),
    ],
)
def test_paths_of_models_are_checked_before_anything_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, path: str, message: str | None
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # no test asks the hub
    (tmp_path / "folder/tiny").mkdir(parents=True)
    (tmp_path / "folder/tiny/config.json").write_text("{}")
    study = small_study(tmp_path, path.replace("{here}", str(tmp_path)), backend=kind)
    assert_missing(study, message)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("fake:echo?sleep=3", "fake script fake:echo.sleep=3: sleep: Unexpected keyword argument"),
        ("fake:echo?fail_on_call=soon", "fail_on_call: Input should be a valid integer"),
        ("~nobody_has_this_name/script.json", "cannot be read"),
    ],
)
def test_malformed_scripts_say_what_is_allowed(path: str, message: str) -> None:
    with pytest.raises(BackendError, match=message):
        load_backend(fake(path))


def told(lake: Lake, outcome: Outcome, caplog: pytest.LogCaptureFixture) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.INFO):
        tell_accuracy(lake, outcome, LOG)
    return caplog.messages


def test_every_dataset_and_prompt_has_a_line_when_the_rows_are_new(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plan = LakePlan(datasets=("a", "b"), prompts=("zero_shot", "few_shot"), always_right=("large",))
    lake = make_lake(tmp_path, plan)
    stamp = lake.stamp("answers", "large|closed_book")
    assert stamp is not None
    new = Outcome("answers", "large|closed_book", stamp, was_current=False)
    assert told(lake, new, caplog) == [
        f"large · closed_book · {prompt} · {dataset}: accuracy 100.0 % [96.8, 100.0] of n = 120"
        " (provisional; the mart decides)"
        for dataset in ("a", "b")
        for prompt in ("few_shot", "zero_shot")
    ]
    assert told(lake, dataclasses.replace(new, was_current=True), caplog) == []
    assert told(lake, dataclasses.replace(new, table="generated_passages"), caplog) == []


def test_the_share_is_counted_from_the_lakes_own_verdicts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lake = make_lake(tmp_path, LakePlan(models=("small",)))
    stamp = lake.stamp("answers", "small|bm25")
    assert stamp is not None
    rows = lake.read("answers", "small|bm25", ["is_correct"])["is_correct"].to_pylist()
    (line,) = told(lake, Outcome("answers", "small|bm25", stamp, was_current=False), caplog)
    assert line.startswith(f"small · bm25 · zero_shot: accuracy {100 * sum(rows) / len(rows):.1f} % [")
    assert f"of n = {len(rows)} (" in line


def test_many_empty_predictions_are_told_with_what_helps(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lake = make_lake(tmp_path, LakePlan(models=("small",)))
    partition = "small|closed_book"
    rows = lake.read("answers", partition).to_pylist()
    for n_empty, n_lines in ((len(rows) // 5, 1), (len(rows) // 5 + 1, 2)):
        changed = [{**row, "prediction": " \n"} if at < n_empty else row for at, row in enumerate(rows)]
        stamp = lake.write("answers", changed, fingerprint="f", partition=partition)
        lines = told(lake, Outcome("answers", partition, stamp, was_current=False), caplog)
        assert len(lines) == n_lines
    assert f"zero_shot: {n_empty} of {len(rows)} predictions are empty" in lines[1]
    assert "key shots" in lines[1]
