"""Results of OpenAI's Batch API and of services that write the same: one JSON object a request, joined by `custom_id`.

Bodies of /v1/chat/completions, /v1/completions and /v1/responses are read, with tokens, log-probabilities and why the
text ends. A request that ended in an error, expired, or has no result has no answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from longtail.errors import SourceError
from longtail.imports.format import AnswerFormat, Method
from longtail.imports.records import MOST_ASIDE, check_keys, read_json_lines
from longtail.imports.results import ImportedAnswer, Questions, answer_of, only_one
from longtail.methods import memory_method
from longtail.parsing.line_files import RejectedRows
from longtail.scoring.model_answer import confidence_of_part, read_tokens
from longtail.storage.fingerprints import prompt_hash
from longtail.storage.lake import QuarantinedRow
from longtail.study.imports import Results
from longtail.study.parts import Part
from longtail.study.values import TEXT, Reading, Text, Value, read_text, whole

NO_RESULT = "the batch has no result for it"
_FAILED = "the request failed: "
_NOT_SHOWN = "(not shown)"
"""Stands for the reasoning of a model whose service counts its tokens and keeps its text."""
_FILTERED = ("content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation")
_LONGEST_CODE = 40
_MOST_TOKENS = 2**31
_Object = Mapping[str, Any]


def read_batch(
    path: Path, declared: Results, questions: Questions
) -> tuple[list[ImportedAnswer], list[QuarantinedRow]]:
    """The results whose `custom_id` is the id of one of `questions`; the others are put aside.

    Errors: `SourceError` where a file cannot be read, or has results of several models, or several texts for a request,
    and the declaration chooses none.
    """
    rejected = RejectedRows(path.name, most=MOST_ASIDE)
    files = [path, *([declared.option("errors")] if declared.option("errors") else [])]
    lines = [(file, number, line) for file in files for number, line in read_json_lines(file, rejected)]
    asked, done = _requests(declared, rejected), {_id(line) for _, _, line in lines}
    missing = [
        (number, {"custom_id": id_, "error": NO_RESULT})
        for id_, (number, _) in asked.items()
        if id_ not in done
    ]
    lines += [(declared.option("requests"), number, line) for number, line in missing]
    bodies = [_object(_object(line.get("response")).get("body")) for _, _, line in lines]
    models = [str(body["model"]) for body in bodies if body.get("model")]
    model = only_one(path, "model", declared.option("model"), models)
    indexes = [index for body in bodies for index in _choices(body)]
    index = only_one(path, "choice", declared.option("choice"), indexes)
    answers = []
    for (file, number, line), body in zip(lines, bodies, strict=True):
        if body.get("model") and str(body["model"]) != model:
            continue
        try:
            answers.append(
                ImportedAnswer(
                    question_id=_question_id(line, declared.option("id_prefix") or "", questions),
                    method=declared.option("method"),
                    place=f"{file.name} line {number}",
                    prompt_hash=_prompt_hash(asked.get(_id(line), (0, {}))[1]),
                    made_by=model or "",
                    **_answer(line, body, index),
                )
            )
        except ValueError as error:
            rejected.put(number, str(error), line)
    return answers, rejected.list_rows()


def _id(line: _Object) -> str:
    return str(line.get("custom_id", "")).strip()


def _question_id(line: _Object, prefix: str, questions: Questions) -> str:
    """Errors: `ValueError`."""
    custom_id = _id(line)
    question_id = custom_id.removeprefix(prefix)
    if question_id not in questions or not custom_id.startswith(prefix):
        hint = "" if prefix else "; id_prefix is what stands before the id"
        raise ValueError(f"custom_id: no question of the dataset has the id {custom_id[:40]!r}{hint}")
    return question_id


def _answer(line: _Object, body: _Object, index: int | None) -> dict[str, Any]:
    """The text, or why there is none, its tokens, and how sure the model was. Errors: `ValueError` where there is neither
    a text nor a failure."""
    usage = _usage(body)
    response = _object(line.get("response"))
    status = response.get("status_code")
    is_error = isinstance(status, int) and not 200 <= status < 300
    error = line.get("error") or body.get("error")
    if is_error or error or (not body and "response" in line):
        code = _code(line.get("error"), body.get("error"))
        if code in _FILTERED:
            return answer_of(None, finish_reason="content_filter") | usage
        nothing = "its response has no body" if response else "no response"
        what = f"status {status}{f' ({code})' if code else ''}" if is_error else code or nothing
        return {"text": "", "failure": _FAILED + what, **usage}
    is_response = isinstance(body.get("output"), list)
    text, fields, scored = _of_response(body) if is_response else _of_choice(body, index)
    if usage["reasoning_tokens"] and not fields.get("reasoning"):
        fields["reasoning"] = _NOT_SHOWN
    answer = answer_of(text, **fields)
    tokens, unread = read_tokens(scored), dict[str, str]()
    if _object(scored.get("logprobs")) and not tokens:
        unread["logprobs"] = "the log-probability of each token was expected"
    written = text if isinstance(text, str) else answer["text"]
    start = written.rfind(answer["text"])
    sure = confidence_of_part(written, tokens, start, start + len(answer["text"])) if start >= 0 else None
    if tokens and not sure and answer["text"]:
        unread["logprobs"] = "the tokens of the answer were expected"
    return {**answer, **usage, "confidence": sure, "unread": unread}


def _of_choice(body: _Object, index: int | None) -> tuple[object, dict[str, Any], _Object]:
    """The text of a choice of /v1/chat/completions or /v1/completions, what is said beside it, and what holds its
    tokens. Errors: `ValueError`."""
    if not isinstance(body.get("choices"), list):
        raise ValueError("response.body: an object with choices or output was expected")
    choice = _choices(body).get(index or 0, {})
    message = _object(choice.get("message"))
    fields = {
        "finish_reason": _text(choice.get("finish_reason")),
        "refusal": _text(message.get("refusal")),
        "reasoning": _text(message.get("reasoning_content")) or _text(message.get("reasoning")),
    }
    return message.get("content", choice.get("text")), fields, choice


def _of_response(body: _Object) -> tuple[object, dict[str, Any], _Object]:
    """As `_of_choice`, of a body of /v1/responses."""
    items = _objects(body.get("output"))
    parts = [
        part for item in items if item.get("type") == "message" for part in _objects(item.get("content"))
    ]
    thoughts = [item for item in items if item.get("type") == "reasoning"]
    shown = [
        thought for item in thoughts for key in ("summary", "content") for thought in _objects(item.get(key))
    ]
    texts = [_text(thought.get("text")) for thought in shown]
    reason = _object(body.get("incomplete_details")).get("reason") or body.get("status")
    fields = {"finish_reason": _text(reason), "reasoning": "\n".join(filter(None, texts)) or None}
    scored = [token for part in parts for token in _objects(part.get("logprobs"))]
    return parts or None, fields, {"logprobs": {"content": scored}} if scored else {}


def _choices(body: _Object) -> dict[int, _Object]:
    """The choices of a body by their indexes."""
    choices = _objects(body.get("choices"))
    return {_count(choice.get("index", i)) or 0: choice for i, choice in enumerate(choices)}


def _usage(body: _Object) -> dict[str, int | None]:
    usage = _object(body.get("usage"))
    details = _object(usage.get("completion_tokens_details") or usage.get("output_tokens_details"))
    new_tokens = _count(usage.get("completion_tokens", usage.get("output_tokens")))
    return {
        "prompt_tokens": _count(usage.get("prompt_tokens", usage.get("input_tokens"))),
        "new_tokens": new_tokens,
        "reasoning_tokens": _count(details.get("reasoning_tokens")) or None,
    }


def _code(*errors: object) -> str:
    """The code that tells errors of one kind, of the first error that has one; empty without."""
    for error in errors:
        code = error if isinstance(error, str) else _object(error).get("code") or _object(error).get("type")
        if code:
            return " ".join(str(code).split())[:_LONGEST_CODE]
    return ""


def _requests(declared: Results, rejected: RejectedRows) -> dict[str, tuple[int, _Object]]:
    """custom_id → the line and body of a request; empty without the batch's input file."""
    path = declared.option("requests")
    lines: Iterator[tuple[int, dict[str, Any]]] = read_json_lines(path, rejected) if path else iter(())
    return {
        str(line.get("custom_id", "")).strip(): (number, _object(line.get("body"))) for number, line in lines
    }


def _prompt_hash(request: _Object) -> str | None:
    """The hash of a prompt: the text of the only message, or else the JSON of all messages."""
    asked = request.get("messages", request.get("prompt", request.get("input")))
    if isinstance(asked, list) and len(asked) == 1 and isinstance(_object(asked[0]).get("content"), str):
        asked = asked[0]["content"]
    if not asked:
        return None
    return prompt_hash(asked if isinstance(asked, str) else json.dumps(asked, ensure_ascii=False))


def _object(value: object) -> _Object:
    return value if isinstance(value, Mapping) else {}


def _objects(value: object) -> list[_Object]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: object) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_TOKENS
    return value if is_count else None  # type: ignore[return-value]


def _check(path: Path, declared: Results) -> None:
    if path == declared.option("requests"):
        return check_keys(path, ["custom_id", "body"], declared)
    check_keys(path, ["custom_id"], declared)
    check_keys(path, ["response|error"], declared)
    return None


def _files(place: Path, declared: Results) -> list[Path]:
    files = [place, *(declared.option(key) for key in ("errors", "requests") if declared.option(key))]
    if missing := [file for file in files if not file.is_file()]:
        raise SourceError(f"{missing[0]}: there is no such file of a batch")
    return files


def _find_beside(value: Any, reading: Reading) -> Path:
    return reading.path.parent / Path(read_text(value)).expanduser()


Beside = Annotated[Path, Value(TEXT.wanted, _find_beside, TEXT.schema)]


@dataclass(frozen=True)
class BatchKeys(Part):
    method: Method = memory_method().name
    requests: Beside | None = None
    """the batch's input file, relative to the study file: it gives the prompts, and shows which requests have no
    result"""
    errors: Beside | None = None
    """the batch's file of errors, relative to the study file"""
    id_prefix: Text | None = None
    """what stands before a question's id in `custom_id`"""
    model: Text | None = None
    """chooses where results are of several models"""
    choice: Annotated[int, whole(0)] | None = None
    """chooses, from 0, where a request has several texts"""


FORMAT = AnswerFormat(read=read_batch, files=_files, check=_check, keys=BatchKeys)
