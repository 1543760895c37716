"""The webhook sink of cronpad: a run is one signed HTTP request, with one deadline, to an address that may be reached."""
