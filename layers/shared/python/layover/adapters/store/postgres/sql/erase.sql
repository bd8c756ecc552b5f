-- The end of a thread: a tombstone first (it locks the row that every writer has to lock), then all that
-- belongs to it. Usage stays: it names no thread.

-- name: bury_thread
insert into threads as t (id, agent, created_at, updated_at, deleted_at)
values (%(thread_id)s, '', now(), now(), now())
on conflict on constraint threads_pkey do update
set title = null, {threads:defaults}, deleted_at = coalesce(t.deleted_at, now())

-- name: erase_entries
-- What another thread taught and these superseded holds again, or is superseded by what superseded them.
with recursive gone as materialized (
    select e.id, e.superseded_by from memory_entries e where e.thread_id = %(thread_id)s
),
freed as (
    select e.id, gone.superseded_by as by
    from gone cross join lateral (
        select m.id from memory_entries m
        where m.superseded_by = gone.id and m.thread_id is distinct from %(thread_id)s
        offset 0
    ) e
    union
    select freed.id, gone.superseded_by from freed join gone on gone.id = freed.by
),
relinked as (
    -- By arrays: joined with a list of unknown size, all entries of the owner would be read. Two of them: the
    -- index of superseded entries is small whatever the planner knows of the owner.
    update memory_entries e
    set superseded_by = (
        select freed.by from freed
        where freed.id = e.id and not exists (select from gone where gone.id = freed.by)
    )
    where e.superseded_by = any(array(select id from gone)) and e.id = any(array(select id from freed))
)
delete from memory_entries where thread_id = %(thread_id)s

-- name: erase_compactions
-- Observations go with their generation.
delete from compactions where thread_id = %(thread_id)s

-- name: erase_trees
-- Usage stays, without what the thread's runs said. While their messages are there: they name the runs.
update usage u set tree = null
where u.tree is not null and u.run_id = any(array(
    select distinct m.run_id from messages m where m.thread = (select t.key from threads t where t.id = %(thread_id)s)))

-- name: erase_messages
-- Embeddings go with their message.
delete from messages where thread = (select t.key from threads t where t.id = %(thread_id)s)

-- name: erase_branches
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
