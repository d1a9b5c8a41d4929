"""The 24 relations of EntityQuestions, with the templates of that dataset's questions (SPEC §1).

What belongs here: names and templates. What does not: reading the dataset's files (`imports.entity_questions`).
"""

from __future__ import annotations

SUBJECT = "[X]"
TEMPLATES: dict[str, tuple[str, str]] = {
    "P17": ("country", "Which country is [X] located in?"),
    "P19": ("place of birth", "Where was [X] born?"),
    "P20": ("place of death", "Where did [X] die?"),
    "P26": ("spouse", "Who is [X] married to?"),
    "P36": ("capital", "What is the capital of [X]?"),
    "P40": ("child", "Who is [X]'s child?"),
    "P50": ("author", "Who is the author of [X]?"),
    "P69": ("educated at", "Where was [X] educated?"),
    "P106": ("occupation", "What kind of work does [X] do?"),
    "P112": ("founder", "Who founded [X]?"),
    "P127": ("owner", "Who owns [X]?"),
    "P131": ("administrative unit", "Where is [X] located?"),
    "P136": ("genre", "What type of music does [X] play?"),
    "P159": ("headquarters", "Where is the headquarter of [X]?"),
    "P170": ("creator", "Who was [X] created by?"),
    "P175": ("performer", "Who performed [X]?"),
    "P176": ("manufacturer", "Which company is [X] produced by?"),
    "P264": ("record label", "What music label is [X] represented by?"),
    "P276": ("location", "Where is [X] located?"),
    "P407": ("language", "Which language was [X] written in?"),
    "P413": ("position played", "What position does [X] play?"),
    "P495": ("country of origin", "Which country was [X] created in?"),
    "P740": ("place of formation", "Where was [X] founded?"),
    "P800": ("notable work", "What is [X] famous for?"),
}
"""Property → name of the relation here, and the dataset's question with [X] in the subject's place."""

RELATION_NAMES = tuple(name for name, _ in TEMPLATES.values())
