"""The command sink of cronpad: a run is a process, in a session of its own, and nothing of it outlives the run."""
