"""Requests and replies of Wikimedia's APIs: SPARQL, wbgetentities, page views, titles."""
