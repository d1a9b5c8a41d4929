"""A key planted in the environment, every kind of failure, all logging on: nothing that is written holds it."""

from __future__ import annotations

import logging
import pickle
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
from flaky_server import FAULTS, REFUSE, WITHHOLD, FlakyServer
from served import GREEDY, QUICK, service_model

from longtail.errors import BackendError
from longtail.generation.backends.base import Decoding, Generation
from longtail.generation.backends.openai import OpenAIBackend
from longtail.generation.backends.service.wire import Redactor
from longtail.generation.engine.row_cache import CachedRow, RowCache, row_key
from longtail.generation.engine.task import Request
from tests.fake_time import FakeTime

CANARY = "sk-canary-7f3e9a"
FORMS = (CANARY, "7f3e9a", "canary-")
PROMPTS = [f"Q: Who wrote book {i}? A:" for i in range(12)]
STATUSES = (
    "status_401",
    "status_403",
    "status_404",
    "status_302",
    "status_402",
    "status_418",
    "code_insufficient_quota",
)


def _echo(prompt: str, sample: int) -> str:
    """A server that writes the request's headers into its answers."""
    return f" {CANARY} is your key\n"


class _Everything(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.NOTSET)
        self.lines: list[str] = []
        self.setFormatter(logging.Formatter("%(name)s %(levelname)s %(message)s %(args)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def everything(caplog: pytest.LogCaptureFixture) -> Iterator[_Everything]:
    for name in (None, "urllib3", "requests", "longtail"):
        caplog.set_level(logging.DEBUG, name)
    handler = _Everything()
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)


def _run(server: FlakyServer, folder: Path, prompts: list[str], written: list[str]) -> None:
    """One run into the row cache; all that it says goes to `written`."""
    model = service_model(server.base_url, api_key_env="CANARY_KEY", max_concurrency=4)
    backend = OpenAIBackend(model, policy=QUICK, clock=FakeTime().clock())
    names = [f"row {i}" for i in range(len(prompts))]
    try:
        with RowCache(folder, backend.identity, logging.getLogger("cache")) as cache:
            for i, result in backend.stream(prompts, GREEDY, None, names=names, budget_usd=None):
                written.append(repr(result))
                if isinstance(result, list) and isinstance(result[0], Generation):
                    key = row_key(names[i], backend.identity, Request(Decoding(GREEDY.max_new_tokens)))
                    cache.store({key: CachedRow(result[0], backend.identity.engine, "origin")})
    except BackendError as error:
        written += [str(error), repr(error), "".join(traceback.format_exception(error))]
        written.append(repr(pickle.dumps(error)))
        written.append(f"raised from {error.__cause__!r} in {error.__context__!r}")
    finally:
        backend.close()
    written += [
        repr(backend),
        repr(vars(backend)),
        repr(backend.identity),
        repr(backend.usage()),
        repr(model),
    ]
    written += [repr(vars(value)) for value in vars(backend).values() if hasattr(value, "__dict__")]


def test_the_key_is_nowhere_but_in_the_requests(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    everything: _Everything,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CANARY_KEY", f" {CANARY}\n")
    written: list[str] = []
    prompts = [*PROMPTS, f"{REFUSE} it", WITHHOLD]
    sent = 0
    for fault in (*FAULTS, *STATUSES):
        script = [None if i % 2 else fault for i in range(10)]
        with FlakyServer(script=script, text=_echo) as server:
            _run(server, tmp_path / "cache", prompts, written)
            sent += sum(header.get("Authorization") == f"Bearer {CANARY}" for header in server.books.headers)
            assert all("Authorization" in header for header in server.books.headers)
    with FlakyServer(key="another-key-entirely") as server:
        _run(server, tmp_path / "cache", prompts, written)
    _run(FlakyServerThatIsDown(), tmp_path / "cache", prompts, written)
    assert sent > 200
    assert "raised from None in None" in written
    assert not any(text.startswith("raised from") and text != "raised from None in None" for text in written)
    assert any("[key] is your key" in text for text in written)
    assert any("Incorrect API key provided: Bearer [key]" in text for text in written)
    assert any("attempt 2 follows" in line for line in everything.lines)
    assert any(line.startswith("urllib3") for line in everything.lines)
    captured = capfd.readouterr()
    files = [file.read_bytes().decode("latin-1") for file in tmp_path.rglob("*") if file.is_file()]
    assert files
    for text in (*written, *everything.lines, captured.out, captured.err, *files):
        assert not any(form in text for form in FORMS), text[:300]


class FlakyServerThatIsDown:
    """Nothing listens on the discard port."""

    base_url = "http://127.0.0.1:9/v1"


def test_a_placeholder_is_no_secret_in_answers() -> None:
    """Servers without keys are given EMPTY, x, none …: an answer may well be such a word."""
    assert Redactor("EMPTY").answer("The set is EMPTY") == "The set is EMPTY"
    assert Redactor("a-long-key").answer("The a-long-key") == "The [key]"
    assert Redactor(None).answer("The set") == "The set"
    assert Redactor("k" * 20).message("x" * 155 + "k" * 20) == "x" * 155 + "[key]"
