"""Writes the pages of docs that are made of published numbers, and the pictures of pages."""
