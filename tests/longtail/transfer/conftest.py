"""The small world of Wikimedia's tests, whose client is the one under test here."""

from tests.longtail.wikimedia.conftest import client, fake_time, log, no_contact, server, world  # noqa: F401
