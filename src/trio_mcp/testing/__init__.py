"""Tools for tests: ours and the users'."""
