"""Longtail against its peers, side by side: `make bench-<topic>`."""
