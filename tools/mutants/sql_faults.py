"""Faults to plant in the dbt project: kinds of small changes of a model's or a macro's text, and a sample of them."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from longtail.storage.home import PROJECT_ROOT

DBT = PROJECT_ROOT / "dbt"
UNTRIED = {"audit.sql", "catalogue.sql", "generate_schema_name.sql", "materializations.sql"}
"""Of dbt's graph, not of a lake: tests in `tests/longtail/warehouse` meet them."""
_HELD = r"(?:[^()]|\((?:[^()]|\([^()]*\))*\))"  # no parenthesis that is open
KINDS = [
    ("join key", r"using \((\w+), ([\w, ]+)\)", r"using (\2)"),
    ("join key", r"using \(([\w, ]+), \w+\)", r"using (\1)"),
    ("join key", r"\n +and [\w.]+ = [\w.']+(?=\n)", ""),
    ("join key", r" and [\w.]+ = [\w.']+(?=[ \n)\"])", ""),
    ("join type", r"\bleft join\b", "inner join"),
    ("join type", r"\binner join\b", "left join"),
    ("filter", rf" filter \(where {_HELD}+\)", ""),
    ("filter", r"\n +(?:where|having|qualify) [^\n]+(?=\n *(?:\)|group|order|union|window|from|\{|\n))", ""),
    ("filter", r"(\n +where )[^\n]+\n +and ", r"\1"),
    ("filter", rf"\n +(?:and|or) {_HELD}+?(?=\n +(?:and|or|then|group|order)|\n\n|\n\))", ""),
    ("filter", rf"(?<=where ){_HELD}+? and ", ""),
    ("filter", r" and [\w.]+ (?:is (?:not )?null|[<>=]+ [\w.']+)(?=[ \n,)])", ""),
    ("filter", r"\bis not null", "is null"),
    ("filter", r"\bis null", "is not null"),
    ("denominator", rf"nullif\(({_HELD}+), 0\)", r"\1"),
    ("denominator", r"count\((?!\*|distinct)[\w.]+\)", "count(*)"),
    ("denominator", r"\bavg\(", "sum("),
    ("coalesce", rf"coalesce\(((?:[^(),]|\({_HELD}*\))+),{_HELD}+\)", r"\1"),
    ("comparison", r" < ", " <= "),
    ("comparison", r" <= ", " < "),
    ("comparison", r" > ", " >= "),
    ("comparison", r" >= ", " > "),
    ("distinct", r"\bdistinct (?!on\b|from\b)", ""),
    ("union", r"union all", "union"),
    ("union", r"\bunion(?! all)", "union all"),
    ("extreme", r"\bmin(_by)?\(", r"max\1("),
    ("extreme", r"\bmax(_by)?\(", r"min\1("),
    ("extreme", r"\bleast\(", "greatest("),
    ("extreme", r"\bgreatest\(", "least("),
    ("extreme", r"\bbool_or\(", "bool_and("),
    ("partition", r"(partition by [^()\n]+), [\w.]+(?=\)| order|\n)", r"\1"),
    ("order", r"(order by (?:\w+\.)?\w+)(?! desc)\b(?=[,) ])", r"\1 desc"),
    ("order", r"(order by [\w., ]+) desc", r"\1"),
    ("constant", r"1\.959963984540054", "1.6448536269514722"),
    ("constant", r"\b0\.025\b", "0.05"),
    ("constant", r"\b0\.975\b", "0.95"),
    ("constant", r" ([+-]) 1\b", r" \1 2"),
    ("branches", rf"\bif\(({_HELD}+?), ([^(),]+), ([^(),]+)\)", r"if(\1, \3, \2)"),
    ("branches", r"then ([^\n]+?)(\s+)else ([^\n]+?)(?=\s+end)", r"then \3\2else \1"),
]
_SKIPPED = re.compile(r"--[^\n]*|\{#.*?#\}|\{\{ *config.*?\}\}|'[^'\n]*\b(?:and|or|is)\b[^'\n]*'", re.S)


@dataclass(frozen=True)
class Mutant:
    """A fault: the file below dbt/, the line, its kind, and the text before and after."""

    file: str
    line: int
    kind: str
    start: int
    before: str
    after: str

    def planted_in(self, text: str) -> str:
        return text[: self.start] + self.after + text[self.start + len(self.before) :]

    def __str__(self) -> str:
        old, new = (" ".join(one.split()) for one in (self.before, self.after))
        return f"{self.file}:{self.line}: {self.kind}: {old!r} -> {new!r}"


def mutants_of(path: Path) -> Iterator[Mutant]:
    text = path.read_text(encoding="utf-8")
    skipped = [match.span() for match in _SKIPPED.finditer(text)]
    seen = set()
    for kind, pattern, new in KINDS:
        for match in re.finditer(pattern, text):
            found = (match.start(), match[0], match.expand(new))
            if found not in seen and not any(low <= match.start() < high for low, high in skipped):
                seen.add(found)
                line = text.count("\n", 0, match.start() + match[0].startswith("\n")) + 1
                yield Mutant(str(path.relative_to(DBT)), line, kind, *found)


def sample(pattern: str, most: int, seed: int) -> list[Mutant]:
    """As many mutants as asked for, spread evenly over folders, in an order that the seed decides."""
    folders: dict[Path, list[Mutant]] = defaultdict(list)
    for path in sorted(
        [*DBT.glob("macros/*.sql"), *DBT.glob("models/**/*.sql"), *DBT.glob("models/**/*.py")]
    ):
        if path.name not in UNTRIED and re.search(pattern, str(path.relative_to(DBT))):
            folders[path.parent].extend(mutants_of(path))
    chosen: list[Mutant] = []
    for folder, found in folders.items():
        random.Random(f"{seed} {folder.relative_to(DBT)}").shuffle(found)
    while any(folders.values()) and len(chosen) < most:
        chosen += [found.pop() for found in folders.values() if found]
    return chosen[:most]
