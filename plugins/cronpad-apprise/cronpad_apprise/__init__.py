"""Alerts of cronpad by every service that apprise knows."""
