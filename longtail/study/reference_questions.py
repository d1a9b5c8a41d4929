"""What study.yaml says about reference questions: their popularity is compared, but no model answers them."""

from __future__ import annotations

from dataclasses import dataclass

from longtail.study.imports import PLACE_KEYS, Place, read_place
from longtail.study.reader import Reader

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
    read.only("name", "format", *PLACE_KEYS, "tagme")
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
        url=read.optional("url", lambda key: read.address(key, TAGME_URL)),
        token_env=token_env,
        min_rho=read.real("min_rho", TagMe.min_rho, -1e-9, 1),
    )
