"""What study.yaml says about reference questions: their popularity is compared, but no model answers them.

What belongs here: the keys and their checks. What does not: reading the file (`reference.nq_open`), linking
(`reference.mentions`).
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from dagster_project.core.http import is_loopback
from dagster_project.core.study.imports import Place, read_place
from dagster_project.core.study.reader import Reader

NQ_OPEN = "nq_open"
FORMATS = (NQ_OPEN,)
TAGME_URL = "https://tagme.d4science.org/tagme/tag"


@dataclass(frozen=True)
class TagMe:
    """A TagMe-compatible service that links questions to Wikipedia articles.

    `url`: None means the public service, or for the sandbox the sandbox's own. `token_env` names the environment
    variable with the service's token. Links whose rho is at most `min_rho` are left out (PopQA, appendix A).
    """

    url: str | None = None
    token_env: str = "TAGME_TOKEN"  # noqa: S105 (a name, no token)
    min_rho: float = 0.22


@dataclass(frozen=True)
class ReferenceQuestions:
    """A file of questions. `tagme` links them; without it, the names of the lake's entities do."""

    name: str
    format: str
    place: Place
    tagme: TagMe | None = None


def read_reference_questions(read: Reader) -> ReferenceQuestions:
    """One entry of the list under `reference_questions`."""
    read.only("name", "format", "path", "path_env", "tagme")
    return ReferenceQuestions(
        name=read.slug("name"),
        format=read.choice("format", FORMATS),
        place=read_place(read),
        tagme=_tagme(read.child("tagme")) if "tagme" in read.raw else None,
    )


def _tagme(read: Reader) -> TagMe:
    read.only("url", "token_env", "min_rho")
    token_env = TagMe.token_env
    if read.raw.get("token_env") is not None:
        token_env = read.environment_name("token_env")
    return TagMe(
        url=read.optional("url", lambda key: _url(read, key)),
        token_env=token_env,
        min_rho=read.real("min_rho", TagMe.min_rho, -1e-9, 1),
    )


def _url(read: Reader, key: str) -> str:
    """An address that does not reveal the token on the way. The message does not show a wrong one: it may hold a
    token."""
    url = read.text(key)
    if "@" in url or "?" in url or "#" in url:
        raise read.fail(key, "may hold no user name, password or query: name the token by token_env")
    try:
        parts = urlsplit(url)
        is_address = bool(parts.hostname) and parts.port != 0 and not any(char.isspace() for char in url)
    except ValueError:
        is_address = False
    if not is_address or not (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(url))):
        raise read.fail(key, f"must be an https address, as in {TAGME_URL}; http is for this machine only")
    return url
