"""Reads files and texts: decompression, lines, RDF, terms, names."""
