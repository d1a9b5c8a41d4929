"""Facts, names and page views of Wikidata and Wikipedia, over their APIs (`protocols`) or from their dumps (`dumps`).

How requests are sent, limited and repeated is in `transfer`; the sandbox serves the same protocols.
"""
