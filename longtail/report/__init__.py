"""The report: one page of figures, the page of all answers, and the comparison of two studies, from published files.

`figures` has the figures by topic, made of the parts in `marks`; `figure` says what a figure is and how it is drawn.
`published` reads the warehouse, `report` and `answers` write the two pages by `page`, `comparison` a third. Numbers are
not computed here: each is a column of a mart.
"""
