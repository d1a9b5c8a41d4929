"""Logs of Inspect (`.eval`, or `.json`), read by its own package, inspect_ai (extra `inspect`).

The package only reads the file: nothing is evaluated and nothing is sent. A log of a cancelled, failed or still running
evaluation lacks samples, so it is refused unless results have `accept_unfinished: true`. Tokens and time are those of the
call that gave the answer. Where a provider answers in batches (`hf`), the time is that of the whole batch. From
log-probabilities of its tokens follows the confidence of a written answer, at the log's own temperature.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longtail.errors import SourceError
from longtail.imports.format import AnswerFormat, Method
from longtail.imports.lines import refuse_other_kinds
from longtail.imports.results import (
    ImportedAnswer,
    Questions,
    answer_of,
    chosen_text,
    judge,
    numbers_of,
    only_log,
    only_one,
)
from longtail.methods import memory_method
from longtail.needs import check_package
from longtail.parsing.line_files import RejectedRows
from longtail.scoring.model_answer import confidence_of_part, read_tokens
from longtail.storage.lake import QuarantinedRow
from longtail.study.imports import Results
from longtail.study.parts import Part
from longtail.study.values import Count, Flag, Text

PACKAGE = ("inspect_ai", "[inspect]")
_UNREAD = {"messages", "events", "store", "attachments", "timelines"}
"""Parts of a sample that can be large, and have nothing that is read here."""
_ZIP = b"PK"
_DETAILS = re.compile(r"[(:\d'\"{\[]")
"""Where an error's text begins to speak of one request."""
_CHOICE = "choice"
"""The scorer of solver `multiple_choice`."""
_SAID = re.compile(r"ANSWER\s*:[\s*$(]*([A-Z\d]+(?:\s*,\s*[A-Z\d]+)*)\b", re.IGNORECASE)
"""What that solver asks models to write, for logs with another scorer."""


def read_log(
    place: Path, declared: Results, questions: Questions
) -> tuple[list[ImportedAnswer], list[QuarantinedRow]]:
    """The samples of a log whose id is in `questions`; the others are put aside. Samples of other epochs are neither.

    Errors: `SourceError` if the file is no whole log, if its evaluation did not finish, or if
    it has several epochs, scorers or metrics and the declaration chooses none, or one that is not there.
    """
    (path,) = _files(place, declared)
    rejected = RejectedRows(path.name)
    log = _load(path)
    if log.status != "success":
        unfinished = f"its evaluation did not finish (status {log.status}), so samples are missing"
        if not declared.option("accept_unfinished"):
            raise SourceError(
                f"{path}: {unfinished}; finish it by inspect eval-retry, or take what is there by"
                " accept_unfinished: true in results"
            )
        rejected.put("all", f"{unfinished}: it has {len(log.samples or [])} of {log.eval.dataset.samples}")
    samples = log.samples or []
    epoch = only_one(path, "epoch", declared.option("epoch"), (sample.epoch for sample in samples))
    samples = [one for one in samples if one.epoch == epoch]  # of a repeated question one answer counts
    scorers = (name for sample in samples for name in sample.scores or {})
    scorer = only_one(path, "scorer", declared.option("scorer"), scorers)
    values = [sample.scores[scorer].value if scorer in (sample.scores or {}) else None for sample in samples]
    metrics = (name for value in values for name in _metrics(value))
    metric = only_one(path, "metric", declared.option("metric"), metrics)
    answers = []
    for sample, value in zip(samples, values, strict=True):
        graded = value if metric is None else _metrics(value).get(metric)
        try:
            answers.append(_answer(path, sample, graded, scorer, log.eval.model, declared, questions))
        except ValueError as refused:
            rejected.put(str(sample.id), str(refused), sample.output.completion)
    return answers, rejected.rows


def _load(path: Path) -> Any:
    """The log, without the parts of samples that are not read."""
    from inspect_ai.log import read_eval_log

    with path.open("rb") as stream:
        start = stream.read(512)
    if not start:
        raise SourceError(f"{path}: is empty")
    if not start.startswith(_ZIP):
        refuse_other_kinds(path, start)
    try:
        return read_eval_log(path, exclude_fields=_UNREAD)
    except Exception as error:  # whatever its readers of zip, JSON and fields raise
        reason, _, _ = " ".join(str(error).split()).partition(
            " [type="
        )  # behind it, pydantic quotes the file
        raise SourceError(
            f"{path}: cannot be read as a log of Inspect ({type(error).__name__}: {reason[:200]}); it may be cut off or"
            " another kind of file"
        ) from None


def _metrics(value: Any) -> dict[str, Any]:
    """The values of a scorer that gives several; empty for a single value."""
    return value if isinstance(value, dict) else {}


def _answer(
    path: Path,
    sample: Any,
    value: Any,
    scorer: str | None,
    model: str,
    declared: Results,
    questions: Questions,
) -> ImportedAnswer:
    """Errors: `ValueError` with the reason why the sample cannot be used."""
    if sample.invalidation is not None:
        raise ValueError("the sample was marked as invalid")
    question_id, unread = _question_id(sample, declared.option("id_field"), questions), dict[str, str]()
    usage, choice = sample.output.usage, next(iter(sample.output.choices), None)
    is_correct = judge("score", value, unread)
    fields = _text(sample, choice)
    tokens = read_tokens({"logprobs": choice.logprobs.model_dump()}) if choice and choice.logprobs else ()
    if choice and choice.logprobs and choice.logprobs.content and not tokens:
        unread["logprobs"] = "log-probabilities of all tokens were expected"
    if sample.choices and not fields.get("failure") and not fields.get("is_declined"):
        chosen = _chosen_choices(sample, scorer)
        if chosen is not None:
            tokens = ()
            fields["text"] = chosen_text(
                sample.choices, chosen, _right_choices(sample), questions[question_id]
            )
        if chosen == []:
            unread[_CHOICE] = "the answer names no choice"
    said = sample.output.completion
    start = said.rfind(fields["text"])
    of_prompt = ("input_tokens", "input_tokens_cache_read", "input_tokens_cache_write")
    return ImportedAnswer(
        question_id=question_id,
        method=declared.option("method"),
        place=f"{path.name} sample {sample.id}",
        is_correct=is_correct,
        made_by=model,
        prompt_tokens=usage and sum(getattr(usage, name) or 0 for name in of_prompt),
        new_tokens=usage and usage.output_tokens,
        reasoning_tokens=usage and (usage.reasoning_tokens or None),
        latency_ms=None if sample.output.time is None else 1000 * sample.output.time,
        confidence=confidence_of_part(said, tokens if start >= 0 else (), start, start + len(fields["text"])),
        **fields,
        unread=unread,
    )


def _text(sample: Any, choice: Any) -> dict[str, Any]:
    """The fields of the answer, or why there is none."""
    output = sample.output
    if sample.error is not None:
        return {"text": "", "failure": f"the sample ended in an error: {_kind(sample.error.message)}"}
    parts = choice.message.content if choice and isinstance(choice.message.content, list) else []
    thoughts = [part.reasoning for part in parts if part.type == "reasoning"]
    reason = choice.stop_reason if choice else None
    if sample.limit is not None and reason in (None, "unknown"):
        reason = "length"
    if output.error and reason != "content_filter" and not output.completion.strip():
        return {"text": "", "failure": f"the model's service gave an error: {_kind(output.error)}"}
    said = output.completion if choice else None
    return answer_of(said, finish_reason=reason, reasoning="\n".join(thoughts) or None)


def _kind(message: str) -> str:
    """The beginning of an error's text, which errors of one kind share."""
    return _DETAILS.split(" ".join(message.split()), maxsplit=1)[0][:40]


def _chosen_choices(sample: Any, scorer: str | None) -> list[int] | None:
    """The choices that the model chose, by their numbers in the sample's own order, as its scorer or its text says.

    Empty: none that the log's scorer of choices could read; None: the sample is scored by something else.
    """
    said = sample.scores[scorer].answer if scorer in (sample.scores or {}) else None
    numbers = numbers_of(said or "", len(sample.choices))
    if numbers is None and scorer != _CHOICE:
        written = _SAID.findall(sample.output.completion)
        return numbers_of(written[-1], len(sample.choices)) if written else None
    return numbers or []


def _right_choices(sample: Any) -> list[list[int]]:
    """The set of choices that is right: `B`, or all of `A, C`; empty where the target is something else."""
    target = [sample.target] if isinstance(sample.target, str) else sample.target
    tokens = [token for value in target for token in value.replace(",", " ").split()]
    letters = ",".join(token if token.isnumeric() else ",".join(token) for token in tokens)
    numbers = numbers_of(letters, len(sample.choices))
    return [] if numbers is None else [numbers]


def _question_id(sample: Any, id_field: str | None, questions: Questions) -> str:
    if id_field is not None and id_field not in sample.metadata:
        raise ValueError(f"metadata: key {id_field!r} was expected")
    question_id = str(sample.id if id_field is None else sample.metadata[id_field]).strip()
    if question_id not in questions:
        raise ValueError(f"{'id' if id_field is None else id_field}: no question of the dataset has it")
    return question_id


def _files(place: Path, _: Results) -> list[Path]:
    check_package(*PACKAGE)
    return [only_log(place, "*.eval", "*.json")]


@dataclass(frozen=True)
class LogKeys(Part):
    method: Method = memory_method().name
    id_field: Text | None = None
    """the key of the samples' metadata with the question's id; without it, their own id is meant"""
    epoch: Count | None = None
    """chooses where a log has several"""
    scorer: Text | None = None
    """chooses where a log has several"""
    metric: Text | None = None
    """of a scorer that gives several values"""
    accept_unfinished: Flag = False
    """read the log of a cancelled, failed or running evaluation"""


FORMAT = AnswerFormat(read=read_log, files=_files, package=PACKAGE, keys=LogKeys)
