"""What a fake model says: scripts of answers, for tests and dry runs.

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

import dataclasses
import hashlib
import json
import re
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from longtail.errors import BackendError
from longtail.study.model_files import place_of
from longtail.study.models import Model

RULES = ("digest", "passage", "echo")
VERSION = "1"
_QUESTION = re.compile(r"(?:^|\n)(?:Q: (?P<qa>[^\n]*) A:|Question: (?P<long>[^\n]*)\nAnswer:)$")
_SYLLABLES = ("ba", "de", "ki", "lo", "mu", "na", "re", "si")


@dataclass(frozen=True)
class Script:
    """What a fake model does; the module's opening explains the options."""

    rule: str = "digest"
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


def answer_of(prompt: str, script: Script) -> str:
    """The answer that a script gives to a prompt."""
    match = _QUESTION.search(prompt)
    question = (match["qa"] or match["long"] or "") if match else prompt.rpartition("\n")[2]
    if question in script.answers:
        return script.answers[question]
    if script.rule == "echo":
        return question or prompt
    before = prompt[: match.start() if match else len(prompt) - len(question)]
    shown = before.rstrip("\n").rpartition("\n")[2]
    return shown if script.rule == "passage" and shown else _words(prompt)


def sample_of(prompt: str, seed: int, script: Script) -> str:
    """The answer that a script gives to a prompt under a sample's seed."""
    drawn = f"{prompt}\n{seed}"
    return _words(drawn) if digest(drawn)[31] % 2 else answer_of(prompt, script)


def text_of(prompt: str, seed: int | None, script: Script) -> str:
    """The sample of a seed; without one, the greedy answer."""
    return answer_of(prompt, script) if seed is None else sample_of(prompt, seed, script)


def _words(text: str) -> str:
    drawn = digest(text)
    words = ("".join(_SYLLABLES[byte % 8] for byte in drawn[i : i + 3]).title() for i in (0, 3))
    return " ".join(words)


def digest(text: str) -> bytes:
    """SHA-256 of a text; lone surrogates count too."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def read_script(model: Model) -> Script:
    """The script that a model's path names. Errors: `BackendError` naming the option and what is allowed."""
    if model.path.startswith("fake:"):
        rule, _, query = model.path.removeprefix("fake:").partition("?")
        return _script(model, {"rule": rule, **dict(urllib.parse.parse_qsl(query))})
    try:
        options = json.loads(place_of(model.path, model.study_folder).read_text(encoding="utf-8"))
    except (OSError, ValueError, RuntimeError) as error:  # RecursionError, and the home of nobody
        raise BackendError(f"model {model.name}: fake script {model.path} cannot be read ({error})") from None
    if not isinstance(options, dict):
        raise BackendError(f"model {model.name}: fake script {model.path} must hold an object of options")
    return _script(model, options)


def _script(model: Model, options: Mapping[str, Any]) -> Script:
    kinds: dict[str, Callable[[Any], Any]] = {
        "rule": str, "answers": dict, "refuse": str, "fail_on_call": int, "stream": _flag, "ledger": str,
    }  # fmt: skip
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


def _flag(value: object) -> bool:
    known = {"true": True, "false": False}
    text = str(value).lower()
    if text not in known:
        raise ValueError(f"stream is true or false, not {value!r}")
    return known[text]
