"""A backend without a model, for tests and dry runs: its answers follow from the prompt's text.

`Model.path` is a rule, as in `fake:passage?seconds_per_call=0.5`, or the path of a JSON file with the same
options:

    {"rule": "digest", "answers": {"Who wrote Emma?": "Jane Austen"}, "seconds_per_call": 0.5}

- `rule`: `digest` (two words made from the prompt's hash), `passage` (the line before the last question,
  without one as `digest`), `echo` (the last question itself).
- `answers`: answers to questions by their exact text; they come before the rule.
- `seconds_per_call`, `seconds_per_prompt`: how slow it is.
- `fail_on_call`: the n-th call of a process (from 1) raises `BackendError`.
- `refuse`: prompts that contain this text are failed generations.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import resource
import time
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dagster_project.core.errors import BackendError
from dagster_project.core.generation.base import (
    GENERATE,
    Decoding,
    Failure,
    Generation,
    Identity,
    Secret,
    Usage,
)
from dagster_project.core.study import Model

RULES = ("digest", "passage", "echo")
_VERSION = "1"
_QUESTION = re.compile(r"(?:^|\n)(?:Q: (?P<qa>[^\n]*) A:|Question: (?P<long>[^\n]*)\nAnswer:)$")
_SYLLABLES = ("ba", "de", "ki", "lo", "mu", "na", "re", "si")


@dataclass(frozen=True)
class Script:
    """What a fake model does; see the module's head."""

    rule: str = "digest"
    answers: Mapping[str, str] = field(default_factory=dict)
    refuse: str = ""
    seconds_per_call: float = 0.0
    seconds_per_prompt: float = 0.0
    fail_on_call: int = 0

    @property
    def revision(self) -> str:
        """SHA-256 over what decides the answers: a slower or failing script is the same model."""
        text = json.dumps([_VERSION, self.rule, dict(self.answers), self.refuse], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


class FakeBackend:
    """Answers by its script, at once or slowly."""

    capabilities = frozenset({GENERATE})

    def __init__(self, model: Model, secret: Secret = os.environ.get) -> None:
        self.script = read_script(model)
        self.identity = self.identify(model)
        self._n_calls = 0

    @staticmethod
    def identify(model: Model) -> Identity:
        """The script stands in for weights."""
        return Identity(read_script(model).revision, model.dtype, model.quantisation, "fake", _VERSION)

    def generate(self, prompts: Sequence[str], decoding: Decoding) -> list[Generation | Failure]:
        """Answer each prompt; tokens are words."""
        self._n_calls += 1
        if self._n_calls == self.script.fail_on_call:
            raise BackendError(f"fake backend: call {self._n_calls} fails, as its script says (fail_on_call)")
        seconds = self.script.seconds_per_call + self.script.seconds_per_prompt * len(prompts)
        time.sleep(seconds)
        share = 1000 * seconds / max(1, len(prompts))
        return [self._answer(prompt, decoding, share, len(prompts)) for prompt in prompts]

    def usage(self) -> Usage:
        """No device; the process's peak memory."""
        return Usage("none", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)

    def close(self) -> None:
        """Nothing to release."""

    def _answer(self, prompt: str, decoding: Decoding, latency_ms: float, size: int) -> Generation | Failure:
        if self.script.refuse and self.script.refuse in prompt:
            return Failure(f"refused: the prompt contains {self.script.refuse!r}")
        words = f" {answer_of(prompt, self.script)}".split(" ")[: decoding.max_new_tokens + 1]
        return Generation(" ".join(words), len(prompt.split()), len(words) - 1, 0, latency_ms, size)


def answer_of(prompt: str, script: Script) -> str:
    """The answer that a script gives to a prompt."""
    match = _QUESTION.search(prompt)
    question = (match["qa"] or match["long"] or "") if match else ""
    if question in script.answers:
        return script.answers[question]
    if script.rule == "echo":
        return question or prompt
    before = prompt[: match.start()].rstrip("\n").rpartition("\n")[2] if match else ""
    if script.rule == "passage" and before:
        return before
    digest = hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).digest()
    words = ("".join(_SYLLABLES[byte % 8] for byte in digest[i : i + 3]).title() for i in (0, 3))
    return " ".join(words)


def read_script(model: Model) -> Script:
    """The script that a model's path names. Errors: `BackendError` naming the option and what is allowed."""
    if model.path.startswith("fake:"):
        rule, _, query = model.path.removeprefix("fake:").partition("?")
        return _script(model, {"rule": rule, **dict(urllib.parse.parse_qsl(query))})
    try:
        options = json.loads(Path(model.path).expanduser().read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BackendError(f"model {model.name}: fake script {model.path} cannot be read ({error})") from None
    if not isinstance(options, dict):
        raise BackendError(f"model {model.name}: fake script {model.path} must hold an object of options")
    return _script(model, options)


def _script(model: Model, options: Mapping[str, Any]) -> Script:
    kinds = {"rule": str, "answers": dict, "refuse": str, "fail_on_call": int}
    allowed = [f.name for f in dataclasses.fields(Script)]
    for name in options:
        if name not in allowed:
            raise BackendError(f"model {model.name}: fake option {name!r}; allowed: {', '.join(allowed)}")
    try:
        script = Script(**{name: kinds.get(name, float)(value) for name, value in options.items()})
    except (TypeError, ValueError) as error:
        raise BackendError(f"model {model.name}: fake script {model.path}: {error}") from None
    if script.rule not in RULES:
        raise BackendError(f"model {model.name}: fake rule {script.rule!r}; allowed: {', '.join(RULES)}")
    return script
