"""ASKING: the client, its openers, and how it finds out what the other side speaks."""
