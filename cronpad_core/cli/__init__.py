"""Floor 9: the command line. click lives here."""
