"""Facts, names and page views of Wikidata and Wikipedia, over their APIs (`wikibase`, `articles`) or from
their dumps (`truthy_dump`, `page_view_dump`).

How requests are sent, limited and repeated is in `transfer`; the sandbox serves the same protocols.
"""
