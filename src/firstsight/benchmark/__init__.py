"""Every method on every data set: a plan of cells, one record per finished cell."""
