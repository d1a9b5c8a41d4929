"""Linking by a service: stored answers first, then requests for the rest."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from longtail.errors import SourceError
from longtail.needs import Need
from longtail.progress import Progress
from longtail.reference.link_cache import LinkCache
from longtail.reference.tagme import SERVICE, Annotation, annotate, token_of
from longtail.storage.lake import QuarantinedRow
from longtail.study.imports import TAGME_URL, TagMe
from longtail.study.study import Study
from longtail.transfer.client import HttpClient
from longtail.transfer.failures import RefusedRequestError
from longtail.transfer.http import is_loopback
from longtail.wikimedia.sandbox_world import world_version
from longtail.wikimedia.services import check_contact, open_services

_MOST_FAILURES_IN_A_ROW = 3
_REFUSES_THE_TEXT = (400, 413, 414, 422)  # any other 4xx refuses the token or the client

Answers = dict[str, list[Annotation]]
_Ask = Callable[[str], list[Annotation]]


def service_name(study: Study, tagme: TagMe) -> str:
    """Distinguishes one service's answers from another's: its address, or for the sandbox its world."""
    if _is_sandbox(study, tagme):
        code = world_version(study.source)
        return f"sandbox {study.source.seed} {study.source.facts_per_relation} {code}"
    return tagme.url or TAGME_URL


def linked_by_service(
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
    with LinkCache(study.home.cache / "links", service_name(study, tagme)) as cache:
        known = cache.find(set(questions.values()))
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
                answered, rejected = _asked(ask, name, missing, cache, log)
            known.update(answered)
    return {key: known[text] for key, text in questions.items() if text in known}, rejected


def needs_of_links(study: Study) -> Iterator[Need]:
    """The token of each linking service, and the contact that a service elsewhere is told."""
    for i, questions in enumerate(study.reference_questions):
        tagme = questions.tagme
        if tagme is not None and not _is_sandbox(study, tagme):
            yield Need(f"reference_questions[{i}].tagme.token_env", partial(token_of, tagme))
            if not is_loopback(tagme.url or TAGME_URL):
                yield Need(
                    f"reference_questions[{i}].tagme", partial(check_contact, study.source, SERVICE.name)
                )


@contextlib.contextmanager
def _service(study: Study, name: str, tagme: TagMe, client: HttpClient | None) -> Iterator[_Ask]:
    """The function that sends a text to the service, while the context is open."""
    if not _is_sandbox(study, tagme):
        token, limits = token_of(tagme), study.home.home / "locks" / "wikimedia"
        with client or HttpClient(study.source.contact_env, limits=limits) as http:
            yield partial(annotate, http, tagme.url or TAGME_URL, token)
        return
    with open_services(study.source, study.home, client) as services:
        if services.tagme_url is None or services.tagme_token is None:
            raise SourceError(
                f"{name}: the study's source has no TagMe service; give its address by tagme.url"
            )
        yield partial(annotate, services.client, services.tagme_url, services.tagme_token)


def _asked(
    ask: _Ask, name: str, questions: Mapping[str, str], cache: LinkCache, log: logging.Logger
) -> tuple[dict[str, list[Annotation]], list[QuarantinedRow]]:
    """Send one question after another; a question whose text is refused is put aside."""
    progress = Progress(log, f"{name}: questions linked", len(questions))
    found: dict[str, list[Annotation]] = {}
    rejected: list[QuarantinedRow] = []
    n_failed_in_a_row, left = 0, []
    for question_id, text in questions.items():
        try:
            found[text] = ask(text)
        except SourceError as error:
            n_failed_in_a_row += 1
            if n_failed_in_a_row == _MOST_FAILURES_IN_A_ROW:
                raise
            if isinstance(error, RefusedRequestError) and error.status in _REFUSES_THE_TEXT:
                rejected.append(QuarantinedRow(row_key(name, question_id), f"not linked: {error}", text))
            else:
                left.append(error)
            continue
        cache.store(text, found[text])
        n_failed_in_a_row = 0
        progress.add(1)
    progress.done()
    if left:
        raise SourceError(
            f"{name}: {len(left)} of {len(questions)} questions are not linked yet; the other links are kept; run"
            f" again to link only these (the first: {left[0]})"
        )
    return found, rejected


def row_key(name: str, question_id: str) -> str:
    """The quarantine's key of a question that was put aside."""
    return f"{name} {question_id}"


def _is_sandbox(study: Study, tagme: TagMe) -> bool:
    return tagme.url is None and study.source.kind == "sandbox"
