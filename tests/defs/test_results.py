"""Metadata tables: a label from the world is text, never markup."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dagster_project.defs.results import markdown_table


def test_markup_in_a_label_is_escaped() -> None:
    table = markdown_table([{"label": "<script>alert(1)</script> | [a](javascript:b) `c` *d*", "n": 2}])
    assert (
        table.splitlines()[-1] == r"| \<script\>alert(1)\</script\> \| \[a\](javascript:b) \`c\` \*d\* | 2 |"
    )


@given(st.lists(st.text(max_size=200), min_size=1, max_size=5))
def test_any_text_stays_in_its_cell(labels: list[str]) -> None:
    lines = markdown_table([{"label": label} for label in labels]).split("\n")
    assert len(lines) == 2 + len(labels)
    for line in lines[2:]:
        inner = line[2:-2]
        assert line.startswith("| ")
        assert line.endswith(" |")
        assert "|" not in inner.replace("\\\\", "").replace("\\|", "")
