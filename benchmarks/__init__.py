"""Compares Longtail with its peers: `make bench-<topic>`."""
