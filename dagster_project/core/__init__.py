"""What Longtail computes, free of Dagster: an asset in `defs` reads, calls one function from here, and writes."""
