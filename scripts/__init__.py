"""What the repository is kept with; nothing of it is installed."""
