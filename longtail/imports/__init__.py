"""Files of others: questions, answers, paraphrases, collections, decisions, whatever their format and condition.

Reading a file's bytes as lines, cells, objects or Parquet rows is here, and so are the names of columns and values
that cannot be read. `formats` has what single formats mean. Dumps of Wikidata and page views are not here
(`wikimedia`).
"""
