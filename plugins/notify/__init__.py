"""Notifiers, one file each; none knows another."""
