"""GRAMMAR: what may follow what. Sans-IO JSON-RPC, framing, handshake and envelope; no Trio."""
