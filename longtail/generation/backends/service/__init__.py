"""Generation by servers with an OpenAI-compatible API: requests, replies, repeats, limits and bills.

`wire` is what goes over the wire, `replies` says what came back, `connection` sends, `asking` repeats, `dispatch`
keeps requests in flight, `quota` and `budget` hold limits, `billing` counts, and `redaction` keeps keys out of
messages.
"""
