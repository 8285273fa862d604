"""Files, folders, locks, samples on disk, identity of data, JSON schemas and terminal output."""
