"""The computations of Longtail, without Dagster: an asset in `defs` reads, calls one function from here, and writes."""
