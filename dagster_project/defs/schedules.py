"""What runs by itself: each month the newest page views, and everything that depends on popularity.

Answers do not depend on page views (popularity is joined in dbt), so a refresh uses no GPU time.

The window of popularity follows the newest month only if study.yaml has no `popularity.last_month`. With `last_month`,
a refresh only lengthens fct_popularity_history: no rate, threshold or figure changes.
"""

from __future__ import annotations

import datetime

import dagster as dg

from dagster_project.defs.partitions import chosen_study

refresh_popularity = dg.define_asset_job(
    "refresh_popularity",
    selection=dg.AssetSelection.groups("page_views", "warehouse", "report"),
    description="One month of page views, then dbt with its tests, the bootstraps, the publication and the report.",
)


@dg.schedule(job=refresh_popularity, cron_schedule="0 6 3 * *", execution_timezone="UTC")
def monthly_popularity(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
    """On the third of each month, when Wikimedia has counted it: the previous month.

    With `popularity.last_month` in the study this only lengthens fct_popularity_history. Leave it out, and popularity
    follows the newest month.
    """
    if chosen_study().popularity.measure != "page_views":
        return dg.SkipReason("this study's popularity is not measured in page views")
    month = last_complete_month(context.scheduled_execution_time)
    return dg.RunRequest(run_key=month, partition_key=month)


def last_complete_month(now: datetime.datetime) -> str:
    """The month before the month of `now`, as YYYY-MM."""
    return f"{now.replace(day=1) - datetime.timedelta(days=1):%Y-%m}"
