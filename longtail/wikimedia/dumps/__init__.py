"""Readers of Wikimedia's dumps, which stream: nothing here grows with the size of a dump."""
