"""A fit as a job: run in worker processes, safe against being killed, one record per cell that it answers."""
