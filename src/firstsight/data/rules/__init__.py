"""What must hold in a data set, and what deserves a look."""
