"""A backend without a model, for tests and dry runs: its answers follow from the prompt's text.

What it says and does is `Model.path`'s script; `fake_script` tells of the options. It can do whatever a backend
can; one whose script does not stream declares that it cannot `STREAM`, although its class can.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from operator import eq
from pathlib import Path
from typing import Any

from dagster_project.core.errors import BackendError
from dagster_project.core.generation.backends.base import (
    Decoding,
    Failure,
    Generation,
    Identity,
    Postponed,
    Score,
    Secret,
    Usage,
)
from dagster_project.core.generation.backends.fake_script import (
    VERSION,
    answer_of,
    digest,
    read_script,
    text_of,
)
from dagster_project.core.study.backends import CAPABILITIES, STREAM
from dagster_project.core.study.study import Model

_DOLLAR_ERROR = 1e-9


class FakeBackend:
    """Answers by its script, at once or slowly. Tokens are words."""

    capabilities = CAPABILITIES

    def __init__(self, model: Model, secret: Secret = os.environ.get) -> None:
        self.script = read_script(model)
        self.identity = self.identify(model)
        if not self.script.stream:
            self.capabilities = CAPABILITIES - {STREAM}
        self.spent_usd = 0.0
        self._n_calls = 0

    @staticmethod
    def identify(model: Model) -> Identity:
        """The script stands in for weights."""
        return Identity(read_script(model).revision, model.dtype, model.quantisation, "fake", VERSION)

    def generate(self, prompts: Sequence[str], decoding: Decoding) -> list[Generation | Failure]:
        """Answer each prompt."""
        drawn = self._batch(prompts, decoding, [[None]] * len(prompts))
        return [result if isinstance(result, Failure) else result[0] for result in drawn]

    def sample(
        self, prompts: Sequence[str], decoding: Decoding, seeds: Sequence[Sequence[int]]
    ) -> list[list[Generation] | Failure]:
        """For each prompt one text a seed."""
        return self._batch(prompts, decoding, seeds)

    def score(
        self, prompts: Sequence[str], candidates: Sequence[Sequence[str]]
    ) -> list[list[Score] | Failure]:
        """For each prompt the scores of its candidates."""
        self._call(len(prompts))
        return [
            Failure(self._refusal()) if self._refuses(prompt) else [self._score(prompt, c) for c in some]
            for prompt, some in zip(prompts, candidates, strict=True)
        ]

    def stream(
        self,
        prompts: Sequence[str],
        decoding: Decoding,
        seeds: Sequence[Sequence[int]] | None,
        *,
        names: Sequence[str],
        budget_usd: float | None,
        is_resumed: bool = False,
    ) -> Iterator[tuple[int, list[Generation] | Failure | Postponed]]:
        """One request after another, in an order of its own; a name that was paid for is not billed again."""
        if STREAM not in self.capabilities:
            raise BackendError("fake backend: this script does not stream; add the option stream=true")
        spent = 0.0
        for i in sorted(range(len(prompts)), key=lambda i: (i // 4, names[i])):
            price = self.script.usd_per_prompt
            if budget_usd is not None and spent + price > budget_usd + _DOLLAR_ERROR:
                yield i, Postponed(f"${price} for a request might overrun the budget")
                continue
            asked: Sequence[int | None] = [None] if seeds is None else seeds[i]
            (result,) = self._batch([prompts[i]], decoding, [asked], service=True)
            if not isinstance(result, Failure):
                spent += price
                self.spent_usd += price
                self._bill(names[i])
            yield i, result

    def forget(self) -> None:
        """Nothing is shared between calls."""

    def usage(self) -> Usage:
        """No device; the process's peak memory."""
        return Usage("none", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)

    def close(self) -> None:
        """Nothing to release."""

    def _batch(
        self,
        prompts: Sequence[str],
        decoding: Decoding,
        seeds: Sequence[Sequence[int | None]],
        service: bool = False,
    ) -> list[list[Generation] | Failure]:
        seconds = self._call(len(prompts)) / max(1, sum(map(len, seeds)))
        results: list[list[Generation] | Failure] = []
        before: list[str] = []
        for prompt, asked in zip(prompts, seeds, strict=True):
            if self._refuses(prompt):
                results.append(Failure(self._refusal()))
                continue
            words = prompt.split()
            shared = 0 if service else sum(takewhile(bool, map(eq, words[:-1], before)))
            before = words
            accounts: dict[str, Any] = {
                "prompt_tokens": len(words),
                "n_truncated_tokens": 0,
                "latency_ms": 1000 * seconds,
                "batch_size": len(prompts),
                "device_seconds": None if service else seconds,
                "cost_usd": self.script.usd_per_prompt / len(asked) if service else None,
            }
            self._note_made(prompt, asked, decoding, service)
            results.append(
                [
                    self._generation(prompt, seed, decoding, len(words) if n else shared, accounts)
                    for n, seed in enumerate(asked)
                ]
            )
        return results

    def _generation(
        self, prompt: str, seed: int | None, decoding: Decoding, shared: int, accounts: Mapping[str, Any]
    ) -> Generation:
        words = f" {text_of(prompt, seed, self.script)}".split(" ")[: decoding.max_new_tokens + 1]
        return Generation(text=" ".join(words), new_tokens=len(words) - 1, shared_tokens=shared, **accounts)

    def _call(self, n_prompts: int) -> float:
        """The seconds that a call took."""
        self._n_calls += 1
        if self._n_calls == self.script.fail_on_call:
            raise BackendError(f"fake backend: call {self._n_calls} fails, as its script says (fail_on_call)")
        seconds = self.script.seconds_per_call + self.script.seconds_per_prompt * n_prompts
        time.sleep(seconds)
        return seconds

    def _refuses(self, prompt: str) -> bool:
        return bool(self.script.refuse) and self.script.refuse in prompt

    def _refusal(self) -> str:
        return f"refused: the prompt contains {self.script.refuse!r}"

    def _score(self, prompt: str, candidate: str) -> Score:
        n_tokens = len(candidate.split())
        if candidate.strip() == answer_of(prompt, self.script):
            return Score(-0.1 * n_tokens, n_tokens)
        return Score(-(1 + digest(f"{prompt}\n{candidate}")[0] / 256) * n_tokens, n_tokens)

    def _note_made(self, prompt: str, seeds: Sequence[int | None], decoding: Decoding, service: bool) -> None:
        if self.script.ledger and not service:
            made = (digest(f"{prompt}\n{decoding.key}\n{seed}").hex() for seed in seeds)
            self._write("".join(f"made {name}\n" for name in made))

    def _bill(self, name: str) -> None:
        if self.script.ledger:
            file = Path(self.script.ledger)
            known = file.read_text(encoding="utf-8").split() if file.exists() else []
            self._write(f"{'again' if name in known else 'paid'} {name}\n")

    def _write(self, lines: str) -> None:
        with Path(self.script.ledger).open("a", encoding="utf-8") as file:
            file.write(lines)
