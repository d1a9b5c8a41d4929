"""Files of answers as programs and services really leave them: what each becomes, in one line of text a file.

`1=Paris` is an answer, `1:` why there is none, `1~` a declined one; then what was put aside, what could not be read
beside an answer, or why the whole file is refused.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtail.errors import SourceError
from longtail.imports.format import AnswerFormat
from longtail.imports.results import ImportedAnswer, text_of_field
from longtail.study.imports import ANSWERS, load_format
from tests.imported_files import results

QUESTIONS: dict[str, dict[str, Any]] = {
    str(i): {"question": f"Who is {i}?", "gold_answers": ["Paris"], "row": i, "subject_id": None}
    for i in range(30)
}
Write = Callable[[Path], None]


def outcome(place: Path, format_: str, **options: Any) -> str:
    """What a file becomes."""
    format: AnswerFormat = load_format(ANSWERS, format_)
    declared = results(format_, **options)
    try:
        for file in format.files(place, declared):
            format.check(file, declared)
        found, rejected = format.read(place, declared, QUESTIONS)
    except SourceError as error:
        return "refused: " + str(error).replace(str(place), "<file>")
    said = [*map(_said, found), *(f"aside: {row.reason}" for row in rejected)]
    return "; ".join([*said, *(f"unread {column}" for one in found for column in one.unread)])


def _said(answer: ImportedAnswer) -> str:
    if answer.failure:
        return f"{answer.question_id}: {answer.failure}"
    sure = " (.5)" if answer.confidence else ""
    return f"{answer.question_id}{'~' if answer.is_declined else '='}{answer.text}{sure}"


def lines(*rows: object) -> Write:
    text = "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows)
    return lambda path: path.write_text(text, encoding="utf-8", errors="surrogatepass")  # type: ignore[func-returns-value]


def result(id_: object = "1", code: int = 200, error: object = None, **body: Any) -> dict[str, Any]:
    return {"custom_id": id_, "response": {"status_code": code, "body": body}, "error": error}


def chat(
    id_: object = "1", finish: str = "stop", usage: Any = None, logprobs: Any = None, **message: Any
) -> dict[str, Any]:
    choice = {
        "index": 0,
        "message": {"role": "assistant", **message},
        "finish_reason": finish,
        "logprobs": logprobs,
    }
    return result(id_, choices=[choice], usage=usage or {})


def tokens(logarithm: float | None) -> dict[str, Any]:
    return {"content": [{"token": "Paris", "logprob": logarithm}]}


def half_sure(*texts: str | bytes) -> dict[str, Any]:
    """Tokens of a probability of one half; those given as bytes have no text that can be read."""
    return {
        "content": [
            {"token": text, "logprob": math.log(0.5)}
            if isinstance(text, str)
            else {"token": str(text), "bytes": [*text], "logprob": math.log(0.5)}
            for text in texts
        ]
    }


def body(**message: Any) -> Any:
    return chat(**message)["response"]["body"]


def response(
    status: str, *output: Any, reason: str | None = None, reasoning_tokens: int = 0
) -> dict[str, Any]:
    usage = {
        "input_tokens": 9,
        "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": reasoning_tokens},
    }
    details = {"reason": reason} if reason else None
    return result(object="response", status=status, output=[*output], incomplete_details=details, usage=usage)


def message(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [*parts]}


THOUGHTS = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}
TWO = result(choices=[{"index": i, "message": {"content": text}} for i, text in enumerate(("Oslo", "Paris"))])
REFUSED = {"error": {"message": "x", "code": "content_filter"}}
BATCHES: list[tuple[str, Write, dict[str, Any], str]] = [
    ("parts of a message", lines(chat(content=[{"type": "text", "text": "Paris"}])), {}, "1=Paris"),
    ("an id that is a number", lines(chat(7, content="Paris")), {}, "7=Paris"),
    ("a prefix of ids", lines(chat("request-2", content="Paris")), {"id_prefix": "request-"}, "2=Paris"),
    ("an unknown id", lines(chat(1, content="a"), chat("request-2", content="b")), {},
     "1=a; aside: custom_id: no question of the dataset has the id 'request-2'; id_prefix is what stands before the id"),
    ("thinking till the limit", lines(chat(finish="length", content="", reasoning_content="hm")), {},
     "1: cut while thinking"),
    ("hidden thinking till the limit",
     lines(chat(finish="length", content="", usage={"completion_tokens_details": {"reasoning_tokens": 9}})),
     {}, "1: cut while thinking"),
    ("thinking in the text", lines(chat(content="<think>hm</think>\n\nParis")), {}, "1=Paris"),
    ("a limit at once", lines(chat(finish="length", content=None)), {},
     "1: the limit of new tokens was reached before the answer began"),
    ("an empty text", lines(chat(content="")), {}, "1="),
    ("a refusal", lines(chat(content=None, refusal="I can't")), {}, "1~I can't"),
    ("a content filter", lines(chat(finish="content_filter", content=None)), {}, "1~"),
    ("a content filter of Azure", lines(result(code=400, **REFUSED)), {}, "1~"),
    ("no choices", lines(result(choices=[])), {}, "1: no text came back"),
    ("no body that is known", lines(result(data=[1])), {},
     "aside: response.body: an object with choices or output was expected"),
    ("a web page as body", lines({"custom_id": "1", "response": {"status_code": 502, "body": "<html>"}}), {},
     "1: the request failed: status 502"),
    ("no response", lines({"custom_id": "1", "response": None, "error": None}), {},
     "1: the request failed: no response"),
    ("no body", lines({"custom_id": "1", "response": {"status_code": 200, "body": "<html>"}}), {},
     "1: the request failed: its response has no body"),
    ("completions", lines(result(choices=[{"text": " Paris", "index": 0, "finish_reason": "stop"}])), {}, "1= Paris"),
    ("responses", lines(response("completed", THOUGHTS, message({"type": "output_text", "text": "Paris"}))), {},
     "1=Paris"),
    ("responses: cut", lines(response("incomplete", reason="max_output_tokens", reasoning_tokens=3)), {},
     "1: cut while thinking"),
    ("responses: a refusal", lines(response("completed", message({"type": "refusal", "refusal": "No."}))), {}, "1~No."),
    ("responses: failed", lines(result(status="failed", output=[], error={"code": "server_error"})), {},
     "1: the request failed: server_error"),
    ("two texts", lines(TWO), {}, "refused: <file>: holds several choices: 0, 1; choose one by key choice of results"),
    ("two texts, one chosen", lines(TWO), {"choice": 1}, "1=Paris"),
    ("two models", lines(result(choices=[], model="a"), result("2", choices=[], model="b")), {},
     "refused: <file>: holds several models: a, b; choose one by key model of results"),
    ("log-probabilities of -inf", lines(chat(content="Paris", logprobs=tokens(-math.inf))), {},
     "1=Paris; unread logprobs"),
    ("tokens with a blank before the text, and after thoughts",
     lines(chat(content="Paris", logprobs=half_sure(" Paris")),
           chat(2, content="Paris", reasoning_content="hm", logprobs=half_sure("hm", "</think>", "\n\n", "Paris"))), {},
     "1=Paris (.5); 2=Paris (.5)"),
    ("tokens that end within a character",
     lines(chat(content="Łódź", logprobs=half_sure(b"\xc5", b"\x81", "ódź".encode()))), {}, "1=Łódź (.5)"),
    ("tokens of another text", lines(chat(content="Paris", logprobs=half_sure("Rome"))), {}, "1=Paris; unread logprobs"),
    ("completions without the best tokens",
     lines(result(choices=[{"text": "a", "logprobs": {"tokens": ["a"], "token_logprobs": [math.log(0.5)]}}])), {},
     "1=a (.5)"),
    ("the batch's input", lines({"custom_id": "1", "method": "POST", "body": {"messages": []}}), {},
     "refused: <file>: no row has the key response or error; there are: custom_id, method, body.messages"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("write", "options", "expected"), [pytest.param(*case, id=name) for name, *case in BATCHES]
)
def test_results_of_a_batch(tmp_path: Path, write: Write, options: dict[str, Any], expected: str) -> None:
    write(tmp_path / "batch.jsonl")
    assert outcome(tmp_path / "batch.jsonl", "openai_batch", **options) == expected


def row(id_: object = "1", **values: Any) -> dict[str, Any]:
    return {"id": id_, **values}


def csv(*rows: str, head: str = "id,prediction") -> Write:
    return lines(head, *rows)


def parquet(**columns: Any) -> Write:
    return lambda path: pq.write_table(pa.table(columns), path)


MANY = [row(i, prediction="Paris", latency_ms=1, is_correct=1) for i in range(20)]
CONTENT = {"columns": {"prediction": "answer.choices.message.content"}}
TABLES: list[tuple[str, Write, dict[str, Any], str]] = [
    ("JSON: null and texts", lines(row(prediction=None), row(2, prediction=""), row(3, prediction="None")), {},
     "1: no text came back; 2=; 3=None"),
    ("JSON: NaN, no key, empty list", lines('{"id": 1, "prediction": NaN}', row(2), row(3, prediction=[])), {},
     "1: no text came back; 2: no text came back; 3: no text came back"),
    ("JSON: lists", lines(row(prediction=["Paris"]), row(2, prediction=["a", "b"])), {},
     "1=Paris; aside: column prediction: a text was expected, not \"['a', 'b']\""),
    ("JSON: numbers and truths", lines(row(prediction=1912), row(2, prediction=True), row(3, prediction=0)), {},
     "1=1912; 2=True; 3=0"),
    ("CSV: what programs write for null", csv("1,nan", "2,None", "3,", "4,<NA>", "5,NULL", "6,\\N", "7, "), {},
     "; ".join(f"{i}: no text came back" for i in range(1, 8))),
    ("CSV: what models may say", csv("1,none", "2,Nan", "3,n/a", "4,unknown", "5,0"), {},
     "1=none; 2=Nan; 3=n/a; 4=unknown; 5=0"),
    ("CSV: messages as text",
     csv("1,\"[{'role': 'user', 'content': 'Rome?'}, {'role': 'assistant', 'content': 'Paris'}]\"",
         '2,"{""city"": ""Paris""}"'), {},
     '1=Paris; 2={"city": "Paris"}'),
    ("JSON: messages", lines(row(prediction=[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]),
     row(2, prediction={"x": 1})), {}, "1=b; aside: column prediction: a text was expected, not \"{'x': 1}\""),
    ("CSV: lists as text", csv('1,"[""Paris""]"', "2,['Paris']", "3,[None]", "4,[sic]"), {},
     "1=Paris; 2=Paris; 3: no text came back; 4=[sic]"),
    ("Parquet: null, NaN, texts", parquet(id=["1", "2"], prediction=[None, "nan"]), {}, "1: no text came back; 2=nan"),
    ("Parquet: numbers with NaN", parquet(id=[1, 2], prediction=[math.nan, 1912.0]), {},
     "1: no text came back; 2=1912"),
    ("Parquet: lists", parquet(id=["1", "2"], prediction=[["Paris"], []]), {}, "1=Paris; 2: no text came back"),
    ("a column is_declined", csv("1,No.,true", "2,Paris,0", "3,Oslo,", head="id,prediction,is_declined"), {},
     "1~No.; 2=Paris; 3=Oslo"),
    ("why the text ends",
     csv("1,,length,hm", "2,,content_filter,", "3,Par,length,", head="id,prediction,finish_reason,reasoning"),
     {}, "1: cut while thinking; 2~; 3=Par"),
    ("an error beside an empty text", lines(row(prediction="", error="429"), row(2, prediction="a", error=None),
     row(3, prediction=None, error={"code": 1}), row(4, prediction="", error=False)), {},
     "1: the request ended in an error; 2=a; 3: the request ended in an error; 4="),
    ("a whole message of OpenAI's API",
     lines(row(answer=body(content=None, refusal="No.")), row(2, answer=body(content="a")),
           row(3, answer=body(content="", finish="length"))), CONTENT,
     "1~No.; 2=a; 3: the limit of new tokens was reached before the answer began"),
    ("one verdict of 21 cannot be read", lines(*MANY, row(20, prediction="a", is_correct="perhaps")), {},
     "; ".join([f"{i}=Paris" for i in range(20)] + ["20=a", "unread is_correct"])),
    ("a third of the questions is improper by the judges", lines(row(prediction="a", is_correct="improper"), *MANY[2:4]),
     {}, "1=a; 2=Paris; 3=Paris; unread is_correct"),
    ("a log of lm-evaluation-harness", lines({"doc_id": 0, "doc": {"id": 1}, "resps": [["Paris"]]}), {},
     "refused: <file>: is a log of lm-evaluation-harness; say in results: format: lm_eval"),
    ("the output of a batch", lines(chat(content="Paris")), {},
     "refused: <file>: is the output of a batch of OpenAI's API; say in results: format: openai_batch"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("write", "options", "expected"), [pytest.param(*case, id=name) for name, *case in TABLES]
)
def test_tables(tmp_path: Path, write: Write, options: dict[str, Any], expected: str) -> None:
    write(tmp_path / "answers")
    became = outcome(tmp_path / "answers", "table", **options)
    beginning, is_cut, _ = expected.partition("…")
    assert became.startswith(beginning) if is_cut else became == expected


def sample(doc_id: int = 1, text: object = "Paris", **keys: Any) -> dict[str, Any]:
    return {"doc_id": doc_id, "doc": {"id": doc_id}, "filtered_resps": [text], "resps": [[text]], **keys}


def untitled(doc_id: int, question: str, **keys: Any) -> dict[str, Any]:
    return sample(doc_id, **{"doc": {"question": question}, "filter": "none", **keys})


LOGS: list[tuple[str, Write, dict[str, Any], str]] = [
    ("a metric of .33", lines(sample(filter="none", exact_match=0.33)), {}, "1=Paris; unread exact_match"),
    ("a response of null", lines(sample(text=None, filter="none")), {}, "1: no text came back"),
    ("thinking", lines(sample(text="<think>hm</think>Paris"), sample(2, "<think>hm")), {},
     "1=Paris; 2: cut while thinking"),
    ("filters without names", lines(sample(text="[invalid]"), sample(text="Paris")), {},
     "refused: <file>: holds several filters: 1, 2 (the log does not name its filters: 1 is the first line of each"
     " document); choose one by key filter of results"),
    ("filters without names, one after the other", lines(sample(1, "a"), sample(2, "b"), sample(1, "c"), sample(2, "d")),
     {"filter": "2"}, "1=c; 2=d"),
    ("no ids, but the question's", lines(untitled(4, "Who is 4?")), {}, "4=Paris"),
    ("no ids, but the row's", lines(untitled(4, "Who is 5?")), {}, "5=Paris"),
    ("no ids, the question in the prompt", lines(untitled(4, "", arguments=[["Q: Who is 4?\nA:", {}]])), {}, "4=Paris"),
    ("no ids, and another question", lines(untitled(4, "Why?"), untitled(5, "Who is 5?")), {},
     "5=Paris; aside: key doc_id: the document is not the question of the dataset with this id, or in this row"),
    ("no ids, by key", lines(untitled(4, "Why?")), {"id_field": "doc_id"}, "4=Paris"),
    ("another key", lines(untitled(4, "Why?")), {"id_field": "qid"},
     "refused: <file>: no row has the key doc.qid (did you mean doc_id?); there are: doc_id, doc.question,"
     " filtered_resps, resps, filter"),
    ("likelihoods of NaN",
     lines(sample(filter="none") | {"filtered_resps": [[math.nan, "False"], [-1, "False"]],
           "arguments": [["q", " Paris"], ["q", " Rome"]]}), {},
     "aside: keys filtered_resps and resps: a likelihood is no number"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("write", "options", "expected"), [pytest.param(*case, id=name) for name, *case in LOGS]
)
def test_logs_of_lm_evaluation_harness(
    tmp_path: Path, write: Write, options: dict[str, Any], expected: str
) -> None:
    write(tmp_path / "samples_x.jsonl")
    assert outcome(tmp_path / "samples_x.jsonl", "lm_eval", **options) == expected


Change = Callable[[dict[str, Any]], object]


def said(content: object, reason: str = "stop", **output: Any) -> Change:
    """A sample with this output."""

    def change(sample: dict[str, Any]) -> None:
        choice = sample["output"]["choices"][0]
        choice["message"]["content"], choice["stop_reason"] = content, reason
        choice["logprobs"] = output.pop("logprobs", None)
        sample["output"] |= {"completion": content if isinstance(content, str) else "", **output}

    return change


def scored(value: object) -> Change:
    return lambda sample: sample["scores"]["match"].update(value=value)


HIDDEN = [{"type": "reasoning", "reasoning": "hm"}]
SHOWN = [*HIDDEN, {"type": "text", "text": "Paris"}]
TIMEOUT = {"message": "TimeoutError: 30 s", "traceback": "", "traceback_ansi": ""}
INVALID = {"author": "a", "reason": "b", "timestamp": "2026-01-01T00:00:00+00:00"}
LIMIT = "the limit of new tokens was reached before the answer began"
SAMPLES: list[tuple[str, Change, str]] = [
    ("parts of a message", said(SHOWN, completion="Paris"), "1=Paris"),
    ("thinking till the limit", said(HIDDEN, "max_tokens"), "1: cut while thinking"),
    ("thinking in the text", said("<think>hm</think>\n\nParis"), "1=Paris"),
    ("a limit at once", said("", "max_tokens"), f"1: {LIMIT}"),
    ("a content filter", said("Sorry.", "content_filter"), "1~Sorry."),
    ("a content filter without text", said("", "content_filter", error="blocked"), "1~"),
    ("an error of the service", said("", "unknown", error="Error code: 429 - {'x': 1}"),
     "1: the model's service gave an error: Error code"),
    ("an empty text", said(""), "1="),
    ("no choices", lambda sample: sample["output"].update(choices=[], completion=""), "1: no text came back"),
    ("an error of a solver", lambda sample: sample.update(error=TIMEOUT),
     "1: the sample ended in an error: TimeoutError"),
    ("a limit of time", lambda sample: (said("", "unknown")(sample), sample.update(limit={"type": "time", "limit": 3})),
     f"1: {LIMIT}"),
    ("a mark that it is invalid", lambda sample: sample.update(invalidation=INVALID),
     "aside: the sample was marked as invalid"),
    ("an id with blanks, a number", lambda sample: sample.update(id=1), "1=Answer 0"),
    ("a part of a point", scored(0.5), "1=Answer 0; unread score"),
    ("a grade that is none", scored("A+"), "1=Answer 0; unread score"),
    ("log-probabilities of -inf",
     said("Paris", logprobs=tokens(-math.inf)), "1=Paris; unread logprobs"),
]  # fmt: skip


@pytest.fixture(scope="module")
def whole_log(inspect_logs: Path) -> dict[str, Any]:
    log: dict[str, Any] = json.loads((inspect_logs / "whole.json").read_text())
    return log


@pytest.mark.parametrize(("change", "expected"), [pytest.param(*case, id=name) for name, *case in SAMPLES])
def test_logs_of_inspect(tmp_path: Path, whole_log: dict[str, Any], change: Change, expected: str) -> None:
    sample = json.loads(json.dumps(whole_log["samples"][0])) | {"id": "1"}
    change(sample)
    (tmp_path / "log.json").write_text(json.dumps(whole_log | {"samples": [sample]}), encoding="utf-8")
    assert outcome(tmp_path / "log.json", "inspect", scorer="match") == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "is empty"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2\n", "is a Git LFS pointer"),
        ("<!DOCTYPE html><html></html>", "is a web page (HTML)"),
        ('{"samples": []}', "cannot be read as a log of Inspect"),
        ("[]", "cannot be read as a log of Inspect"),
        ("PK\x03\x04", "cannot be read as a log of Inspect"),
    ],
)
@pytest.mark.parametrize("name", ["log.eval", "log.json"])
def test_files_that_are_no_logs_of_inspect(tmp_path: Path, name: str, content: str, expected: str) -> None:
    (tmp_path / name).write_text(content, encoding="latin-1")
    assert expected in outcome(tmp_path / name, "inspect")


FIELDS = "id,pred,is_correct,generation,has_answer"
REFERENCE: list[tuple[str, str, str]] = [
    ("an empty first line", "1,,False,Q: Who? A:\\n,True", "1="),
    ("no generation either", "1,,,,", "1: no text came back"),
    ("pandas' nan", "1,nan,nan,nan,nan", "1: no text came back"),
    ("verdicts that are none", "1,Paris,maybe,x,perhaps", "1=Paris; unread is_correct; unread has_answer"),
]


@pytest.mark.parametrize(("fields", "expected"), [pytest.param(*case, id=name) for name, *case in REFERENCE])
def test_files_of_the_adaptive_retrieval_reference(tmp_path: Path, fields: str, expected: str) -> None:
    path = tmp_path / "model=m-input=popQA-method=BM25-shots=0-n=1.csv"
    csv(fields, head=FIELDS)(path)
    assert outcome(path, "adaptive_retrieval") == expected


KEYS = [
    "choices", "message", "content", "text", "type", "output", "refusal", "finish_reason", "index", "logprobs", "token",
    "logprob", "usage", "completion_tokens", "completion_tokens_details", "reasoning_tokens", "error", "code", "status",
    "body", "status_code", "model", "summary", "incomplete_details", "reason", "tokens", "token_logprobs",
]  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner),
    max_leaves=25,
)


@given(response=VALUES, error=VALUES)
def test_whatever_a_service_writes_is_an_answer_none_or_put_aside(
    tmp_path_factory: pytest.TempPathFactory, response: object, error: object
) -> None:
    """No line ends the run, and none is lost."""
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    body = {"custom_id": "1", "response": {"status_code": 200, "body": response}, "error": error}
    lines(body, {"custom_id": "2", "response": response, "error": None})(path)
    format: AnswerFormat = load_format(ANSWERS, "openai_batch")
    try:
        found, rejected = format.read(path, results("openai_batch"), QUESTIONS)
    except SourceError:
        return  # several models, or several texts
    assert len(found) + len(rejected) == 2
    assert all(isinstance(one.text, str) for one in found)


@given(
    field=st.text(max_size=30),
    before=st.sampled_from(["", "[", "['", '["']),
    after=st.sampled_from(["", "]", "']", '"]']),
)
def test_a_field_is_its_text_one_text_or_nothing(field: str, before: str, after: str) -> None:
    text = before + field + after
    found = text_of_field(text)
    assert found is None or found == text or (isinstance(found, list) and len(found) <= 1)
    assert text_of_field(text) == text or text.strip() in NOTHING or text.strip().startswith(("[", "{"))


NOTHING = ("", "nan", "NaN", "None", "null", "NULL", "NA", "<NA>", "\\N")
