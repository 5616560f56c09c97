"""Programs for maintaining the repository. They are not part of the installed package."""
