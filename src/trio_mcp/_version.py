"""The version of the package, stated only here: the build and every message that names it read it from here."""

VERSION = "0.1.0"
