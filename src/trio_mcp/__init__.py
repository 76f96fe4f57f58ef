"""Client and server SDK for the Model Context Protocol, native to Trio."""
