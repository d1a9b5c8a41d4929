"""A TagMe-compatible service: requests, answers, and a token that no message shows.

The token is sent in the request's body, never in an address.
"""

from __future__ import annotations

import html
import os
from dataclasses import dataclass
from typing import Any

from longtail.errors import SourceError
from longtail.imports.lines import clean
from longtail.study.imports import TagMe
from longtail.transfer.client import HttpClient
from longtail.transfer.limits import Service

SERVICE = Service("TagMe service", quota="tagme", max_parallel=1, interval_s=0.5, is_wikimedia=False)
LANGUAGE = "en"  # the language of the Wikipedia whose page views are counted


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


def annotate(client: HttpClient, url: str, token: str, text: str) -> list[Annotation]:
    """All annotations of a text, with any rho. Errors: `SourceError`, which never shows the token."""
    form = {"text": text, "lang": LANGUAGE, "gcube-token": token}
    return read_annotations(url, client.post_json(SERVICE, url, form, secret=token))


def read_annotations(url: str, document: Any) -> list[Annotation]:
    """The annotations in an answer. Those without a title link to nothing and are left out. Errors: `SourceError`."""
    found = document.get("annotations") if isinstance(document, dict) else None
    if not isinstance(found, list):
        raise SourceError(f"{SERVICE.name} at {url}: answered JSON without a list of annotations")
    try:
        return [_annotation(one) for one in found if one.get("title")]
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        raise SourceError(
            f"{SERVICE.name} at {url}: answered an annotation without spot, start, end, title, link_probability and rho"
        ) from None


def _annotation(one: dict[str, Any]) -> Annotation:
    annotation = Annotation(
        start=int(one["start"]),
        end=int(one["end"]),
        spot=clean(str(one["spot"])),
        title=article_title(str(one["title"])),
        link_probability=float(one["link_probability"]),
        rho=float(one["rho"]),
    )
    if not (
        annotation.title and 0 <= annotation.start <= annotation.end and annotation.rho == annotation.rho
    ):
        raise ValueError
    return annotation


def article_title(title: str) -> str:
    """A title as in the lake: spaces for underscores, and HTML entities resolved."""
    return " ".join(clean(html.unescape(title)).replace("_", " ").split())
