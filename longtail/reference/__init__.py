"""Reference questions (NQ-open), the entities that they name, and how popular these are (SPEC §1).

The origins of page views are in `wikimedia`.
"""
