"""What runs by itself: each month the newest page views, and everything that depends on popularity; a message if a run
fails.

Answers do not depend on page views (popularity is joined in dbt), so a refresh uses no GPU time.

The window of popularity follows the newest month only if study.yaml has no `popularity.last_month`. With `last_month`,
there is nothing to refresh.

A job names what follows from page views. Automation conditions would also start builds in the middle of `make run`.
Dagster makes up for ticks that it missed, so no sensor looks for a new month.
"""

from __future__ import annotations

import dagster as dg
import requests

from dagster_project.defs.resources import chosen_study
from dagster_project.operations import STUDY
from longtail.errors import single_line
from longtail.study.source import newest_past_month

WEBHOOK = dg.EnvVar("LONGTAIL_WEBHOOK")
_PATIENCE_S = 20
_LONGEST = 1_000

refresh_popularity = dg.define_asset_job(
    "refresh_popularity",
    selection=" or ".join(
        f'group:"{chosen_study().name}/{group}"' for group in ("page_views", "warehouse*", "report")
    ),
    description="One month of page views, then dbt with its tests, the bootstraps, the publication and the report.",
)


@dg.schedule(job=refresh_popularity, cron_schedule="0 6 3 * *", execution_timezone="UTC")
def monthly_popularity(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
    """On the third of each month, when Wikimedia has counted it: the previous month.

    Without `popularity.last_month` in the study, popularity follows the newest month.
    """
    popularity = chosen_study().popularity
    if popularity.measure != "page_views":
        return dg.SkipReason("this study's popularity is not measured in page views")
    if popularity.last_month:
        return dg.SkipReason(f"this study's popularity ends with {popularity.last_month}: its last_month")
    month = newest_past_month(context.scheduled_execution_time)
    return dg.RunRequest(run_key=month, partition_key=month)


@dg.run_failure_sensor(
    monitor_all_code_locations=True,  # else Dagster leaves out the runs of `make run`, which has none
    default_status=dg.DefaultSensorStatus.RUNNING if WEBHOOK.get_value() else dg.DefaultSensorStatus.STOPPED,
    description="Posts a JSON object with key text to the address in LONGTAIL_WEBHOOK when a run fails.",
)
def failed_runs(context: dg.RunFailureSensorContext) -> dg.SkipReason | None:
    """One line for each failed run: the study, what was materialised, the error, and the run's id in the UI."""
    address = WEBHOOK.get_value()
    if not address:
        return dg.SkipReason("LONGTAIL_WEBHOOK names no address")
    run = context.dagster_run
    if run.tags.get(STUDY, chosen_study().name) != chosen_study().name:
        return dg.SkipReason("the sensor of the run's own study reports it")
    causes = [_cause(event) for event in context.get_step_failure_events()] or [context.failure_event.message]
    what = run.tags.get("longtail/stage", run.job_name)
    said = f"Longtail, study {chosen_study().name}: {what} failed (run {run.run_id}): {'; '.join(map(str, causes))}"
    try:
        answer = requests.post(address, json={"text": single_line(said)[:_LONGEST]}, timeout=_PATIENCE_S)
    except requests.RequestException as error:  # without its text, which names the address
        raise dg.Failure(f"the address in LONGTAIL_WEBHOOK: {type(error).__name__}") from None
    if not answer.ok:
        raise dg.Failure(f"the address in LONGTAIL_WEBHOOK answered {answer.status_code}")
    return None


def _cause(event: dg.DagsterEvent) -> str | None:
    """The line of an error that a user can correct, else the first cause."""
    failed = event.step_failure_data
    if failed.user_failure_data:
        return failed.user_failure_data.description
    return (failed.error.cause or failed.error).message if failed.error else event.message
