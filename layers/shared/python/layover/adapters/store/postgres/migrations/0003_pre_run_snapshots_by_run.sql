-- The tree of a run whose records have expired is asked for by the run alone.
create index run_snapshots_run_idx on run_snapshots (resource_id, run_id);
