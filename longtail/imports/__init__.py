"""Files of others: questions, answers, paraphrases, collections, decisions, whatever their format and condition.

`lines` reads a file's bytes as lines and cells, `records` as rows and objects, or their names alone before a run;
`table_rows` reads anybody's table as rows, by the names in `column_names`. `format` says what a format is and gives;
`formats` has one module for each, `results` and `wiki` what several formats share. `datasets` and `answers` write what
files give into the lake. Dumps of Wikidata and page views are not here (`wikimedia`).
"""
