"""Where things are kept: the lake, stores, files, homes, ownership, fingerprints."""
