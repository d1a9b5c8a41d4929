"""Figures of what is asked: popularity of the questions, its drift, and how they were sampled."""

from __future__ import annotations

from dagster_project.core.report.figure import Column, Figure
from dagster_project.core.report.figures.memory import KEY, N
from dagster_project.core.report.marks import popularity_x, series, single, tooltip

FIGURES: tuple[Figure, ...] = ()
_ = (Column, Figure, KEY, N, popularity_x, series, single, tooltip)
