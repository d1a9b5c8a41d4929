"""A study: the keys of study.yaml, their defaults, what excludes what, and the messages for a wrong one.

Whether a named file or model is there is asked by `preflight`.
"""
