"""Writes logs of Inspect by Inspect itself, in a process of its own: `python -m tests.inspect_logs FOLDER`.

The mock model answers from a list, so that nothing is loaded and nothing is sent. A process of its own, because an
evaluation sets up logging and event loops for the whole process.

Files: `whole.eval`, `whole.json` (the same evaluation twice), `epochs.eval` (three epochs), `failed.eval` (a sample ends
in an error and the evaluation with it), `tolerant.eval` (the same, but the evaluation goes on). Multiple choice is in
folder `choices`: `plain.eval`, `shuffled.eval` (the solver shuffles), `reordered.eval` (the dataset shuffles),
`several.eval` (two choices are right), `free.eval` (choices, but the answer is a text).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from longtail.storage.home import PROJECT_ROOT

MODEL = "mockllm/model"
ANSWERS = ("Answer 0", "nobody knows", "It is Answer 2, " + "surely " * 40, "", "answer 4", "Answer 5")
"""What the mock model says to samples 400000 to 400005; their targets are `Answer 0` to `Answer 5`."""
BROKEN = "400001"
"""The sample that ends in an error in failed.eval and tolerant.eval."""
N_CHOICES = 24
CHOICES = tuple((f"City {i}", f"Town {i}", f"River {i}", f"Hill {i}") for i in range(N_CHOICES))
"""The choices of samples 500000 and up; the right one is number i % 4. The mock model takes another in every third."""
UNREADABLE = 7
"""The sample whose answer names no choice."""


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
    from inspect_ai.model import Logprob, Logprobs, ModelOutput, ModelUsage, get_model
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
            words = re.findall(r"\s*\S+\s*", output.completion)[: 1 if i == 0 else None]
            output.choices[0].logprobs = Logprobs(content=[Logprob(token=w, logprob=-0.5) for w in words])
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
    (folder / "choices").mkdir()
    _ask_choices(folder / "choices")


def _ask_choices(folder: Path) -> None:
    """Logs of multiple choice: the mock model reads the letters that it is shown."""
    from inspect_ai import Task, eval
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ChatMessage, GenerateConfig, ModelOutput, ModelUsage, get_model
    from inspect_ai.scorer import choice, includes
    from inspect_ai.solver import Solver, generate, multiple_choice

    def said(input: list[ChatMessage], tools: object, how: object, config: GenerateConfig) -> ModelOutput:
        prompt = input[-1].text
        i = int(prompt.split("Question ")[1].split("?")[0])
        shown = {text: letter for letter, text in re.findall(r"^(\w+)\) (.*)$", prompt, flags=re.MULTILINE)}
        taken = [CHOICES[i][(i + (i % 3 == 0)) % 4]]
        if "multiple answers may be correct" in prompt:
            taken.append(CHOICES[i][(i + 1 + (i % 3 == 1)) % 4])
        text = f"ANSWER: {','.join(shown.get(one, one) for one in taken)}"
        output = ModelOutput.from_content(MODEL, "I cannot say." if i == UNREADABLE else text)
        output.usage = ModelUsage(input_tokens=1, output_tokens=1)
        return output

    def ask(
        name: str, solver: Solver, scorer: Any, target: Callable[[int], Any], reorder: bool = False
    ) -> None:
        samples = MemoryDataset([
            Sample(id=str(500_000 + i), input=f"Question {i}?", choices=list(own), target=target(i))
            for i, own in enumerate(CHOICES)
        ])  # fmt: skip
        if reorder:
            samples.shuffle_choices(seed=3)
        (log,) = eval(
            Task(samples, solver=solver, scorer=scorer, name=name),
            model=get_model(MODEL, custom_outputs=said), log_dir=str(folder / name), log_format="eval",
            display="none", max_samples=1, max_connections=1,
        )  # fmt: skip
        assert log.status == "success"
        shutil.move(log.location.removeprefix("file://"), folder / f"{name}.eval")

    def letter(i: int) -> str:
        return "ABCD"[i % 4]

    ask("plain", multiple_choice(), choice(), letter)
    ask("shuffled", multiple_choice(shuffle=Random(5)), choice(), letter)
    ask("reordered", multiple_choice(), choice(), letter, reorder=True)
    ask("several", multiple_choice(multiple_correct=True), choice(), lambda i: [letter(i), letter(i + 1)])
    ask("free", generate(), includes(), lambda i: CHOICES[i][i % 4])


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
