"""Generation by servers with an OpenAI-compatible API.

The backend `openai` asks and repeats. `wire` says what is sent, what came back and what it means, and keeps keys out of
messages; `connection` sends within the granted requests and tokens of a minute; `billing` holds the budget and counts
each row's share.
"""
