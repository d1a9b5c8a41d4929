"""Writes logs of Inspect by Inspect itself, in a process of its own: `python -m tests.inspect_logs FOLDER`.

The mock model answers from a list, so that nothing is loaded and nothing is sent. A process of its own, because an
evaluation sets up logging and event loops for the whole process.

Files: `whole.eval`, `whole.json` (the same evaluation twice), `epochs.eval` (three epochs), `failed.eval` (a sample ends
in an error and the evaluation with it), `tolerant.eval` (the same, but the evaluation goes on).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from dagster_project.core.home import PROJECT_ROOT

MODEL = "mockllm/model"
ANSWERS = ("Answer 0", "nobody knows", "It is Answer 2, " + "surely " * 40, "", "answer 4", "Answer 5")
"""What the mock model says to samples 400000 to 400005; their targets are `Answer 0` to `Answer 5`."""
BROKEN = "400001"
"""The sample that ends in an error in failed.eval and tolerant.eval."""


def write_logs(folder: Path) -> Path:
    """The logs, in `folder`. Errors: `CalledProcessError`."""
    folder.mkdir(parents=True, exist_ok=True)
    outside = {"XDG_DATA_HOME": str(folder / "data"), "XDG_CACHE_HOME": str(folder / "cache")}
    known = {name: value for name, value in os.environ.items() if not name.startswith("INSPECT_")}
    subprocess.run(
        [sys.executable, "-m", "tests.inspect_logs", str(folder)],
        cwd=PROJECT_ROOT,
        env=known | outside,
        check=True,
        capture_output=True,
        timeout=300,
    )
    return folder


def _main(folder: Path) -> None:
    from inspect_ai import Task, eval
    from inspect_ai.dataset import Sample
    from inspect_ai.log import read_eval_log, write_eval_log
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.scorer import Score, Target, accuracy, includes, match, mean, scorer
    from inspect_ai.solver import Generate, TaskState, generate, solver

    @scorer(metrics={"strict": [accuracy()], "loose": [mean()]})
    def graded():  # type: ignore[no-untyped-def]
        async def score(state: TaskState, target: Target) -> Score:
            said = state.output.completion
            return Score(value={"strict": "C" if said == target.text else "I", "loose": len(said) > 0})

        return score

    @solver
    def breaking():  # type: ignore[no-untyped-def]
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            if str(state.sample_id) == BROKEN:
                raise RuntimeError("the tool\nbroke")
            return state

        return solve

    def ask(name: str, solvers: list, scorers: list, **options: object) -> Path:
        samples = [
            Sample(
                id=str(400_000 + i), input=f"Question {i}?", target=f"Answer {i}", metadata={"key": f"q{i}"}
            )
            for i in range(len(ANSWERS))
        ]
        outputs = [ModelOutput.from_content(MODEL, text) for text in ANSWERS * 3]
        for i, output in enumerate(outputs):  # given, because the mock would fetch a tokenizer to count
            output.usage = ModelUsage(input_tokens=10, input_tokens_cache_read=5, output_tokens=i)
        logs = folder / name
        (log,) = eval(
            Task(samples, solver=solvers, scorer=scorers, name=name),
            model=get_model(MODEL, custom_outputs=outputs), log_dir=str(logs), log_format="eval",
            display="none", max_samples=1, max_connections=1, **options,
        )  # fmt: skip
        target = folder / f"{name}.eval"
        shutil.move(log.location.removeprefix("file://"), target)
        return target

    whole = ask("whole", [generate()], [match(), includes(), graded()])
    write_eval_log(read_eval_log(whole), folder / "whole.json")
    ask("epochs", [generate()], [includes()], epochs=3)
    ask("failed", [breaking(), generate()], [includes()])
    ask("tolerant", [breaking(), generate()], [includes()], fail_on_error=False)


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
