"""From the lake to the published warehouse: running dbt, publishing its marts, reading the headline."""
