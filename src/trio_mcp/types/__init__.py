"""VOCABULARY: what can be said. Generated attrs classes, the method table, profiles, the converter; no I/O, no Trio."""
