"""ENGINE: exchanges, runs, the hall and links made of messages. Trio, but no transport."""
