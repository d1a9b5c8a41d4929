"""How long the rest of a study will take, as far as there is a basis to say so."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dagster_project.stages import Stage
from longtail.errors import LongtailError
from longtail.progress import Progress, duration
from longtail.storage.files import STAGING, atomic_file

_BASIS_S = 3.0
_CURRENT_SHARE = 0.2


@dataclass(frozen=True)
class Left:
    """Seconds; None without a basis. `is_least`: stages are left whose time is not known."""

    stage_s: float | None
    study_s: float | None
    is_least: bool = False

    def __str__(self) -> str:
        told = [] if self.stage_s is None else [f"stage about {duration(self.stage_s)} left"]
        if self.study_s is not None:
            told.append(f"study {'at least' if self.is_least else 'about'} {duration(self.study_s)} left")
        return ", ".join(told)


class StageTimes:
    """The seconds that stages took: the last time, in any earlier run, or for another model in this run."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last = _read(path)
        self._of_kind: dict[tuple[str, ...], float] = {}

    def note(self, stage: Stage, seconds: float) -> None:
        """The stage has ended. Much less time than before means that it was current: then the old time is kept.

        Where the disk fails, only the note is lost.
        """
        if seconds < _CURRENT_SHARE * self._last.get(stage.title, 0.0):
            return
        self._last[stage.title] = round(seconds, 1)
        self._of_kind[stage.keys] = seconds
        staging = self._path.parent / STAGING
        with contextlib.suppress(OSError, LongtailError), atomic_file(self._path, staging) as temporary:
            temporary.write_text(json.dumps(self._last), encoding="utf-8")

    def of(self, stage: Stage) -> float | None:
        """How long the stage may take; None without a basis."""
        return self._last.get(stage.title, self._of_kind.get(stage.keys))

    def left(self, stage: Stage, seconds: float, steps: Sequence[Progress], after: Sequence[Stage]) -> Left:
        """What is left of `stage`, which has run for `seconds`, and of the study: that and the stages `after` it."""
        own = _by_steps(steps)
        known = self.of(stage)
        if own is None and known is not None and known > seconds:
            own = known - seconds
        known_after = [known for one in after if (known := self.of(one)) is not None]
        if not known_after and (after or own is None):
            return Left(own, None)
        is_least = own is None or len(known_after) < len(after)
        return Left(own, sum(known_after, own or 0.0), is_least)


def _by_steps(steps: Sequence[Progress]) -> float | None:
    """By the share of the stage's partitions that is done: whole ones, and the part of the one under way."""
    outer = next((one for one in steps if one.is_stage), None)
    inner = next((one for one in reversed(steps) if one.weighs), None)
    whole = outer or inner
    if whole is None:
        return None
    step = whole.step()
    share = inner.step().share or 0.0 if inner is not None else 0.0
    if outer is not None:
        share = min(1.0, (step.done + share) / (step.total or 1))
    paced = max(one.touched for one in (outer, inner) if one is not None) - whole.started
    left = paced / share - step.seconds if share and paced >= _BASIS_S else None
    return None if left is None or left < 0 else left


def _read(path: Path) -> dict[str, float]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {str(title): float(seconds) for title, seconds in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
