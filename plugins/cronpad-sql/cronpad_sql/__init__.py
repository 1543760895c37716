"""SQLite storage for cronpad: ``sqlite:///var/lib/cronpad``."""
