"""What is wrong now, read in one place for `status`, `doctor`, health and alerts, and the messages about it."""
