"""Linking by a TagMe-compatible service: stored answers first, then requests for the rest.

The answers are stored for all studies of one home, so that each text is sent once. The token is sent in the request's
body, never in an address; no file and no message has it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import html
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from longtail.errors import SourceError
from longtail.imports.lines import clean
from longtail.needs import Need
from longtail.progress import Progress
from longtail.storage.blob_store import BlobStore
from longtail.storage.lake import QuarantinedRow
from longtail.study.imports import TAGME_URL, TagMe
from longtail.study.study import Study
from longtail.transfer.client import HttpClient
from longtail.transfer.http import RefusedRequestError, is_loopback
from longtail.transfer.limits import Service
from longtail.wikimedia.services import check_contact, open_services, world_version

SERVICE = Service("TagMe service", quota="tagme", max_parallel=1, interval_s=0.5, is_wikimedia=False)
LANGUAGE = "en"  # the language of the Wikipedia whose page views are counted

_MOST_FAILURES_IN_A_ROW = 3
_REFUSES_THE_TEXT = (400, 413, 414, 422)  # any other 4xx refuses the token or the client


@dataclass(frozen=True)
class Annotation:
    """A spot in the text and the Wikipedia article that the service links it to; `rho` is its confidence, 0 to 1."""

    start: int
    end: int
    spot: str
    title: str
    link_probability: float
    rho: float


def token_of(tagme: TagMe) -> str:
    """The service's token. Errors: `SourceError` where its environment variable is empty."""
    token = os.environ.get(tagme.token_env, "").strip()
    if not token:
        raise SourceError(
            f"environment variable {tagme.token_env} is not set; set it to the token of the TagMe service, or leave key"
            " tagme of reference_questions out to link by names of entities (nothing was requested)"
        )
    return token


def read_annotations(url: str, document: Any) -> list[Annotation]:
    """The annotations in an answer. Those without a title link to nothing and are left out. Errors: `SourceError`."""
    annotations = document.get("annotations") if isinstance(document, dict) else None
    if not isinstance(annotations, list):
        raise SourceError(f"{SERVICE.name} at {url}: answered JSON without a list of annotations")
    try:
        return [_annotation(annotation) for annotation in annotations if annotation.get("title")]
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        raise SourceError(
            f"{SERVICE.name} at {url}: answered an annotation without spot, start, end, title, link_probability and rho"
        ) from None


def _annotation(given: dict[str, Any]) -> Annotation:
    annotation = Annotation(
        start=int(given["start"]),
        end=int(given["end"]),
        spot=clean(str(given["spot"])),
        title=article_title(str(given["title"])),
        link_probability=float(given["link_probability"]),
        rho=float(given["rho"]),
    )
    if not (
        annotation.title and 0 <= annotation.start <= annotation.end and annotation.rho == annotation.rho
    ):
        raise ValueError
    return annotation


def article_title(title: str) -> str:
    """A title as in the lake: spaces for underscores, and HTML entities resolved."""
    return " ".join(clean(html.unescape(title)).replace("_", " ").split())


def _key(text: str) -> str:
    return hashlib.sha256(json.dumps([LANGUAGE, text]).encode()).hexdigest()


Answers = dict[str, list[Annotation]]
_Ask = Callable[[str], list[Annotation]]


def service_name(study: Study, tagme: TagMe) -> str:
    """Distinguishes one service's answers from another's: its address, or for the sandbox its world."""
    if _is_sandbox(study, tagme):
        code = world_version(study.source)
        return f"sandbox {study.source.seed} {study.source.facts_per_relation} {code}"
    return tagme.url or TAGME_URL


def link_by_service(
    study: Study,
    name: str,
    tagme: TagMe,
    questions: Mapping[str, str],
    log: logging.Logger,
    client: HttpClient | None = None,
) -> tuple[Answers, list[QuarantinedRow]]:
    """Annotations by question id, and the questions whose text the service refuses.

    Each answer is stored at once. Errors: `SourceError` where the token is missing, or the service leaves three
    questions in a row without an answer, or any question failed temporarily. In the last case all other questions were
    sent and their answers are stored.
    """
    service = hashlib.sha256(service_name(study, tagme).encode()).hexdigest()[:32]
    with contextlib.closing(BlobStore(study.home.cache / "links" / f"{service}.sqlite")) as cache:
        stored = ((text, cache.get(_key(text))) for text in set(questions.values()))
        known = {
            text: [Annotation(*values) for values in json.loads(answer)]
            for text, answer in stored
            if answer is not None
        }
        missing = {key: text for key, text in questions.items() if text not in known}
        rejected: list[QuarantinedRow] = []
        if missing:
            log.info(
                "%s: %d questions to link, %d linked before",
                name,
                len(missing),
                len(questions) - len(missing),
            )
            with _service(study, name, tagme, client) as ask:
                answered, rejected = _ask(ask, name, missing, cache, log)
            known.update(answered)
    return {key: known[text] for key, text in questions.items() if text in known}, rejected


def needs_of_links(study: Study) -> Iterator[Need]:
    """The token of each linking service, and the contact that a service elsewhere is told."""
    for i, questions in enumerate(study.reference_questions):
        tagme = questions.tagme
        if tagme is not None and not _is_sandbox(study, tagme):
            yield Need(f"reference_questions[{i}].tagme.token_env", partial(token_of, tagme))
            if not is_loopback(tagme.url or TAGME_URL):
                yield Need(f"reference_questions[{i}].tagme", partial(check_contact, SERVICE.name))


@contextlib.contextmanager
def _service(study: Study, name: str, tagme: TagMe, client: HttpClient | None) -> Iterator[_Ask]:
    """The function that sends a text to the service and gives all its annotations, while the context is open."""
    with contextlib.ExitStack() as opened:
        if _is_sandbox(study, tagme):
            services = opened.enter_context(open_services(study.source, study.home, client))
            http, url, token = services.client, services.tagme_url, services.tagme_token
        else:
            url, token = tagme.url or TAGME_URL, token_of(tagme)
            limits = study.home.home / "locks" / "wikimedia"
            http = opened.enter_context(client or HttpClient(limits=limits))
        if url is None or token is None:
            raise SourceError(
                f"{name}: the study's source has no TagMe service; give its address by tagme.url"
            )
        form = {"lang": LANGUAGE, "gcube-token": token}
        yield lambda text: read_annotations(
            url, http.post_json(SERVICE, url, {"text": text, **form}, secret=token)
        )


def _ask(
    ask: _Ask, name: str, questions: Mapping[str, str], cache: BlobStore, log: logging.Logger
) -> tuple[dict[str, list[Annotation]], list[QuarantinedRow]]:
    """Send one question after another; a question whose text is refused is put aside."""
    progress = Progress(log, f"{name}: questions linked", len(questions))
    answers: dict[str, list[Annotation]] = {}
    rejected: list[QuarantinedRow] = []
    n_failed_in_a_row, left = 0, []
    for question_id, text in questions.items():
        try:
            answers[text] = ask(text)
        except SourceError as error:
            n_failed_in_a_row += 1
            if n_failed_in_a_row == _MOST_FAILURES_IN_A_ROW:
                raise
            if isinstance(error, RefusedRequestError) and error.status in _REFUSES_THE_TEXT:
                rejected.append(QuarantinedRow(row_key(name, question_id), f"not linked: {error}", text))
            else:
                left.append(error)
            continue
        values = [dataclasses.astuple(annotation) for annotation in answers[text]]
        cache.put(_key(text), json.dumps(values, ensure_ascii=False).encode())
        n_failed_in_a_row = 0
        progress.add(1)
    progress.done()
    if left:
        raise SourceError(
            f"{name}: {len(left)} of {len(questions)} questions are not linked yet; the other links are kept; run"
            f" again to link only these (the first: {left[0]})"
        )
    return answers, rejected


def row_key(name: str, question_id: str) -> str:
    """The quarantine's key of a question that was put aside."""
    return f"{name} {question_id}"


def _is_sandbox(study: Study, tagme: TagMe) -> bool:
    return tagme.url is None and study.source.kind == "sandbox"
