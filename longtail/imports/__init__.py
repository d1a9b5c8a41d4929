"""Files of others: questions, answers, paraphrases, collections, decisions, whatever their format and condition.

`lines` and `records` read a file's bytes as lines, cells and objects; `table_rows` reads anybody's table as rows, by the
names in `column_names`, which `column_checks` looks for before a run. `format` says what a format is and gives; `formats`
has one module for each, `table`, `results` and `wiki` what several formats share. `datasets` and `answers` write what
files give into the lake. Dumps of Wikidata and page views are not here (`wikimedia`).
"""
