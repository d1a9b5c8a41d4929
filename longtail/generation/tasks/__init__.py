"""The generated lake tables: their key columns, inputs, items, and the row that an item and a result make.

The order of work, caching and failures are the same for all of them (`generation.engine`).
"""
