"""Generation by servers with an OpenAI-compatible API.

`wire` says what is sent, what came back and what it means, and keeps keys out of messages; `connection` sends within the
granted requests and tokens of a minute; `asking` repeats; `billing` holds the budget and counts each row's share.
"""
