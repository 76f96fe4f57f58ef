"""The siege: one server with defaults, an ordinary user, and everybody who attacks them, for some minutes."""
