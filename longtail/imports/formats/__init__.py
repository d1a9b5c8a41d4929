"""One package for each kind of file that a study may name, with one module for each format, found by listing."""
