"""A backend without a model, for tests and dry runs: its answers follow from the prompt's text, by a script.

`Model.path` is a rule, as in `fake:passage?seconds_per_call=0.5`, or the path of a JSON file with the same
options:

    {"rule": "digest", "answers": {"Who wrote Emma?": "Jane Austen"}, "seconds_per_call": 0.5}

- `rule`: `digest` (two words made from the prompt's hash), `passage` (the line before the last question; as `digest`
  where there is none), `echo` (the last question itself; the last line of a prompt whose format is unknown).
- `answers`: answers to questions by their exact text; they come before the rule.
- `seconds_per_call`, `seconds_per_prompt`: how slow it is.
- `fail_on_call`: the n-th call of a process (from 1; in a stream, the n-th request) raises `BackendError`.
- `refuse`: prompts that contain this text are failed generations.
- `stream`: it behaves as a service does, one request after another, and reads no passages apart from a prompt.
  Without it the loaded backend does not declare `STREAM`, although its class can.
- `usd_per_prompt`: what a streamed request costs.
- `ledger`: a file that gets one line per result: `made <hash of what decides it>`. A stream writes `paid <name>` per
  request, or `again <name>` where that name was paid for before.

A sample is the rule's answer for about half of the seeds, and words made from prompt and seed for the rest.
The candidate that equals the rule's answer is the likeliest.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from operator import eq
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError

from longtail.errors import BackendError
from longtail.generation.backends.base import (
    CandidateScore,
    Decoding,
    Failure,
    Generation,
    Identity,
    Postponed,
    Scored,
    Secret,
    Usage,
)
from longtail.generation.prompts.endings import cut_text
from longtail.scoring.model_answer import confidence_of
from longtail.study.backends import CAPABILITIES, PASSAGES, STREAM
from longtail.study.model_files import place_of
from longtail.study.models import Model

VERSION = "1"
_QUESTION = re.compile(r"(?:^|\n)(?:Q: (?P<qa>[^\n]*) A:|Question: (?P<long>[^\n]*)\nAnswer:)$")
_SYLLABLES = ("ba", "de", "ki", "lo", "mu", "na", "re", "si")


@dataclass(frozen=True)
class Script:
    """What a fake model does; the module's opening explains the options."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")
    rule: Literal["digest", "passage", "echo"] = "digest"
    answers: Mapping[str, str] = field(default_factory=dict)
    refuse: str = ""
    seconds_per_call: float = 0.0
    seconds_per_prompt: float = 0.0
    fail_on_call: int = 0
    stream: bool = False
    usd_per_prompt: float = 0.0
    ledger: str = ""

    @property
    def revision(self) -> str:
        """SHA-256 over what decides the answers: a slower or failing script is the same model."""
        text = json.dumps([VERSION, self.rule, dict(self.answers), self.refuse], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def answer_of(prompt: str, script: Script, seed: int | None = None) -> str:
    """The answer that a script gives to a prompt under a sample's seed; without one, the greedy answer."""
    drawn = f"{prompt}\n{seed}"
    if seed is not None and digest(drawn)[31] % 2:
        return _words(drawn)
    match = _QUESTION.search(prompt)
    question = (match["qa"] or match["long"] or "") if match else prompt.rpartition("\n")[2]
    if question in script.answers:
        return script.answers[question]
    if script.rule == "echo":
        return question or prompt
    before = prompt[: match.start() if match else len(prompt) - len(question)]
    shown = before.rstrip("\n").rpartition("\n")[2]
    return shown if script.rule == "passage" and shown else _words(prompt)


def _words(text: str) -> str:
    drawn = digest(text)
    words = ("".join(_SYLLABLES[byte % 8] for byte in drawn[i : i + 3]).title() for i in (0, 3))
    return " ".join(words)


def digest(text: str) -> bytes:
    """SHA-256 of a text; lone surrogates count too."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def read_script(model: Model) -> Script:
    """The script that a model's path names. Errors: `BackendError` naming the option and what is allowed."""
    try:
        if model.path.startswith("fake:"):
            rule, _, query = model.path.removeprefix("fake:").partition("?")
            options = {"rule": rule, **dict(urllib.parse.parse_qsl(query))}
        else:
            options = json.loads(place_of(model.path, model.study_folder).read_text(encoding="utf-8"))
        return TypeAdapter(Script).validate_python(options)
    except ValidationError as error:
        (first, *_) = error.errors()
        reason = f": {'.'.join(map(str, first['loc']))}: {first['msg']}"
    except (OSError, ValueError, RuntimeError) as error:  # RecursionError, and the home of nobody
        reason = f" cannot be read ({error})"
    raise BackendError(f"model {model.name}: fake script {model.path}{reason}")


_DOLLAR_ERROR = 1e-9


class FakeBackend:
    """Answers by its script, at once or slowly. Tokens are words. Passages apart from a prompt stand before its text."""

    capabilities = CAPABILITIES

    def __init__(self, model: Model, secret: Secret = os.environ.get) -> None:
        self.script = read_script(model)
        self.identity = self.identify(model)
        self.capabilities = type(self).capabilities - {PASSAGES if self.script.stream else STREAM}
        self.spent_usd = 0.0
        self._n_calls = 0

    @staticmethod
    def identify(model: Model) -> Identity:
        """The script takes the place of weights."""
        return Identity(read_script(model).revision, model.dtype, model.quantisation, "fake", VERSION)

    def generate(
        self, prompts: Sequence[str], decoding: Decoding, *, passages: Sequence[Sequence[str]] = ()
    ) -> list[Generation | Failure]:
        drawn = self._batch(_read(prompts, passages), decoding, [[None]] * len(prompts))
        return [result if isinstance(result, Failure) else result[0] for result in drawn]

    def sample(
        self,
        prompts: Sequence[str],
        decoding: Decoding,
        seeds: Sequence[Sequence[int]],
        *,
        passages: Sequence[Sequence[str]] = (),
    ) -> list[list[Generation] | Failure]:
        return self._batch(_read(prompts, passages), decoding, seeds)

    def score(
        self,
        prompts: Sequence[str],
        candidates: Sequence[Sequence[str]],
        *,
        passages: Sequence[Sequence[str]] = (),
    ) -> list[Scored | Failure]:
        seconds = self._call(len(prompts)) / max(1, len(prompts))
        results: list[Scored | Failure] = []
        for prompt, continuations in zip(_read(prompts, passages), candidates, strict=True):
            if refusal := self._refusal(prompt):
                results.append(refusal)
                continue
            self._note_made(f"{prompt}\n{list(continuations)}", [None], "scores")
            scores = tuple(self._score(prompt, candidate) for candidate in continuations)
            results.append(
                Scored(
                    scores=scores,
                    prompt_tokens=len(prompt.split()),
                    new_tokens=sum(score.n_tokens for score in scores),
                    n_truncated_tokens=0,
                    latency_ms=1000 * seconds,
                    batch_size=len(prompts),
                    device_seconds=seconds,
                )
            )
        return results

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
        """One request after another, in an order of its own. A name that was paid for is not billed again."""
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
        """No device, and the process's peak memory."""
        return Usage("none")

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
            if refusal := self._refusal(prompt):
                results.append(refusal)
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
            if not service:
                self._note_made(prompt, asked, decoding.key)
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
        words = f" {answer_of(prompt, self.script, seed)}".split(" ")[: decoding.max_new_tokens + 1]
        text = " ".join(words)
        answer = cut_text(text, decoding.end)
        confidence = confidence_of([-digest(f"{answer}\n{n}")[0] / 256 for n in range(len(answer.split()))])
        n_new = len(words) - 1
        reason = decoding.finish_reason(text, n_new)
        return Generation(
            text, confidence, finish_reason=reason, new_tokens=n_new, shared_tokens=shared, **accounts
        )

    def _call(self, n_prompts: int) -> float:
        """Take the time of one call; its seconds."""
        self._n_calls += 1
        if self._n_calls == self.script.fail_on_call:
            raise BackendError(f"fake backend: call {self._n_calls} fails, as its script says (fail_on_call)")
        seconds = self.script.seconds_per_call + self.script.seconds_per_prompt * n_prompts
        time.sleep(seconds)
        return seconds

    def _refusal(self, prompt: str) -> Failure | None:
        refused = self.script.refuse
        return Failure(f"refused: the prompt contains {refused!r}") if refused and refused in prompt else None

    def _score(self, prompt: str, candidate: str) -> CandidateScore:
        n_tokens = len(candidate.split())
        if candidate.strip() == answer_of(prompt, self.script):
            return CandidateScore(-0.1 * n_tokens, n_tokens)
        return CandidateScore(-(1 + digest(f"{prompt}\n{candidate}")[0] / 256) * n_tokens, n_tokens)

    def _note_made(self, prompt: str, seeds: Sequence[int | None], how: str) -> None:
        names = (digest(f"{prompt}\n{how}\n{seed}").hex() for seed in seeds)
        self._write(f"made {name}" for name in names)

    def _bill(self, name: str) -> None:
        file = Path(self.script.ledger)
        known = file.read_text(encoding="utf-8").split() if self.script.ledger and file.exists() else []
        self._write([f"{'again' if name in known else 'paid'} {name}"])

    def _write(self, lines: Iterable[str]) -> None:
        if self.script.ledger:
            with Path(self.script.ledger).open("a", encoding="utf-8") as file:
                file.write("".join(f"{line}\n" for line in lines))


def _read(prompts: Sequence[str], passages: Sequence[Sequence[str]]) -> Sequence[str]:
    """Each prompt's text behind its passages."""
    if not passages:
        return prompts
    return ["\n\n".join([*texts, prompt]) for texts, prompt in zip(passages, prompts, strict=True)]
