"""HTTP: one client with limits, retries, a cache and downloads that resume."""
