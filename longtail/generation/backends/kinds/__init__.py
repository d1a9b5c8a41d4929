"""One module for each kind of backend: its record, `BACKEND`, found by listing this folder."""
