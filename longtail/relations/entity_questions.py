"""The 24 relations of EntityQuestions, with the templates of that dataset's questions (SPEC §1).

Some names are PopQA's too: they mean the same property, under another template.
"""

from __future__ import annotations

from longtail.relations.relation import Relation

RELATIONS: tuple[Relation, ...] = (
    Relation("country", "P17", "Which country is [subj] located in?"),
    Relation("place of birth", "P19", "Where was [subj] born?"),
    Relation("place of death", "P20", "Where did [subj] die?"),
    Relation("spouse", "P26", "Who is [subj] married to?"),
    Relation("capital", "P36", "What is the capital of [subj]?"),
    Relation("child", "P40", "Who is [subj]'s child?"),
    Relation("author", "P50", "Who is the author of [subj]?"),
    Relation("educated at", "P69", "Where was [subj] educated?"),
    Relation("occupation", "P106", "What kind of work does [subj] do?"),
    Relation("founder", "P112", "Who founded [subj]?"),
    Relation("owner", "P127", "Who owns [subj]?"),
    Relation("administrative unit", "P131", "Where is [subj] located?"),
    Relation("genre", "P136", "What type of music does [subj] play?"),
    Relation("headquarters", "P159", "Where is the headquarter of [subj]?"),
    Relation("creator", "P170", "Who was [subj] created by?"),
    Relation("performer", "P175", "Who performed [subj]?"),
    Relation("manufacturer", "P176", "Which company is [subj] produced by?"),
    Relation("record label", "P264", "What music label is [subj] represented by?"),
    Relation("location", "P276", "Where is [subj] located?"),
    Relation("language", "P407", "Which language was [subj] written in?"),
    Relation("position played", "P413", "What position does [subj] play?"),
    Relation("country of origin", "P495", "Which country was [subj] created in?"),
    Relation("place of formation", "P740", "Where was [subj] founded?"),
    Relation("notable work", "P800", "What is [subj] famous for?"),
)
