"""Experiments: entries, plan, worker processes, records, tuning and benchmarks."""
