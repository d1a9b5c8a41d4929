"""Builds a portrait where only its first file has room, then again with room; prints the error and what was there."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from longtail.errors import LakeError
from longtail.grounding.portrait import open_portrait
from tests.longtail.grounding.test_portrait import PLAN, built, some_texts
from tests.small_disk import SmallDisk


def main() -> None:
    disk = SmallDisk.of(Path(sys.argv[1]) / "disk", mebibytes=0.2)
    folder, texts = disk.folder / "portrait" / "stamp", some_texts(20)
    try:
        built(folder, texts)
        refused = ""
    except LakeError as error:
        refused = str(error)
    there = [path.name for path in folder.iterdir()]
    disk.resize(4)
    open_portrait(built(folder, texts), PLAN)
    print(json.dumps([refused, *there]))


if __name__ == "__main__":
    main()
