-- The end of a thread: a tombstone first (it locks the row that every writer has to lock), then all that
-- hangs on it. Usage stays: it names no thread.

-- name: bury_thread
insert into threads as t (id, agent, created_at, updated_at, deleted_at)
values (%(thread_id)s, '', now(), now(), now())
on conflict on constraint threads_pkey do update
set title = null, metadata = '{}', deleted_at = coalesce(t.deleted_at, now())

-- name: erase_entries
delete from memory_entries where thread_id = %(thread_id)s

-- name: erase_compactions
-- Observations go with their generation.
delete from compactions where thread_id = %(thread_id)s

-- name: erase_messages
-- Messages go with their branch, embeddings with their message.
delete from branches where thread_id = %(thread_id)s

-- name: erase_working_memory
delete from working_memory where thread_id = %(thread_id)s

-- name: erase_state
delete from thread_state where thread_id = %(thread_id)s

-- name: erase_extractions
delete from extractions where thread_id = %(thread_id)s

-- name: erase_attempts
delete from iteration_log where thread_id = %(thread_id)s

-- name: erase_files
delete from files where thread_id = %(thread_id)s

-- name: erase_snapshots
delete from run_snapshots where thread_id = %(thread_id)s
