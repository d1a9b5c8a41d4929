"""The report: one page of figures, the page of all answers, and the comparison of two studies, from published files.

Numbers are not computed here: each is a column of a mart. A new figure is a `Figure` in `figures`, in the module of its
topic.
"""
