"""Relations as data: properties of Wikidata with their questions, statements, wordings and cloze patterns, by set.

Filling them with subjects is the business of `questions`.
"""
