"""Floor 5: settings and jobs files, read with every problem reported at its place."""
