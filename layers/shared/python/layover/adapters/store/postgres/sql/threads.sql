-- Threads and their messages. Row security gives every query its owner; the column's default writes it.
--
-- Two habits keep plans to index ranges whatever the statistics say (tests/integration/postgres/test_reads.py):
--   * A message is found by its id alone; its thread is compared behind a fence (materialized, offset 0).
--     Else a planner without statistics may scan the whole thread and filter by id.
--   * A bound of a range is a plain column of a materialized list. Row security lets only what is known not
--     to leak into an index condition, and coalesce() is not.

-- name: begin
begin

-- name: set_owner
select set_config('app.resource_id', %(owner)s, true)

-- name: commit
commit

-- name: rollback
rollback

-- name: upsert_thread
-- Locks the thread's row until the end of the pipeline, so writers of one thread come one after another.
-- An unchanged head writes no new row version; a tombstone stays one.
insert into threads as t (id, agent, title, metadata, created_at, updated_at)
values (%(thread_id)s, %(agent)s, %(title)s, %(metadata)s::jsonb, %(created_at)s::timestamptz,
        %(updated_at)s::timestamptz)
on conflict on constraint threads_pkey do update
set title = coalesce(excluded.title, t.title), metadata = excluded.metadata, updated_at = excluded.updated_at,
    agent = excluded.agent
where t.deleted_at is null
  and excluded.updated_at >= t.updated_at
  and (coalesce(excluded.title, t.title) is distinct from t.title or excluded.metadata <> t.metadata
    or excluded.agent <> t.agent)

-- name: insert_messages
-- A chain of messages, each the child of the one before. What is there already stays. The rest goes behind
-- the last one that is there (or behind the parent of the first): into its branch where that place is
-- free, else into a new branch whose path is cut at it. A parent that is missing starts a new root.
with incoming as (
    select * from rows from (
        json_to_recordset(%(messages)s::json) as (
            id text, parent_id text, run_id text, role text, created_at timestamptz, token_count integer,
            content json, model_output text, provider_state json)
    ) with ordinality as i (id, parent_id, run_id, role, created_at, token_count, content, model_output,
                            provider_state, n)
),
alive as (
    select from threads where id = %(thread_id)s and deleted_at is null
),
anchor as (
    select * from (
        (select m.branch_id, m.depth, i.n
         from incoming i
         cross join lateral (
             select m.thread_id, m.branch_id, m.depth from messages m where m.id = i.id offset 0
         ) m
         where m.thread_id = %(thread_id)s)
        union all
        (select m.branch_id, m.depth, 0
         from incoming i
         cross join lateral (
             select m.thread_id, m.branch_id, m.depth from messages m where m.id = i.parent_id offset 0
         ) m
         where i.n = 1 and m.thread_id = %(thread_id)s)
    ) found
    order by n desc
    limit 1
),
place as (
    select a.branch_id, coalesce(a.depth, -1) as depth, coalesce(a.n, 0) as n,
           a.branch_id is not null and not exists (
               select from messages m
               where m.thread_id = %(thread_id)s and m.branch_id = a.branch_id and m.depth = a.depth + 1
           ) as free
    from alive left join anchor a on true
),
fork as (
    insert into branches (thread_id, id, path, path_depths)
    select %(thread_id)s, new.id, p.path || new.id, p.path_depths || 2147483647
    from place
    cross join lateral (
        select coalesce(max(b.id) + 1, 0) as id from branches b where b.thread_id = %(thread_id)s
    ) new
    cross join lateral (
        select b.path, trim_array(b.path_depths, 1) || place.depth as path_depths
        from branches b
        where b.thread_id = %(thread_id)s and b.id = place.branch_id
        union all
        select '{}'::integer[], '{}'::integer[] where place.branch_id is null
    ) p
    where not place.free and place.n < (select count(*) from incoming)
    returning id
)
insert into messages (thread_id, branch_id, depth, id, parent_id, run_id, role, created_at, token_count, content,
                      model_output, provider_state)
select %(thread_id)s, coalesce(fork.id, place.branch_id), place.depth + i.n - place.n, i.id, i.parent_id, i.run_id,
       i.role, i.created_at, i.token_count, i.content, i.model_output, i.provider_state
from place
left join fork on true
join incoming i on i.n > place.n
order by i.n

-- name: move_window
-- The window outgrew `span` messages (or the agent wants more than it has): it begins at the last user
-- message that leaves `least` before the input. Else nothing is written.
with found as materialized (
    select m.thread_id, m.branch_id, m.depth from messages m where m.id = %(input_id)s
),
input as materialized (
    select found.branch_id, found.depth, b.path, b.path_depths, b.window_depth
    from found
    cross join lateral (
        select b.path, b.path_depths, b.window_depth from branches b
        where b.thread_id = found.thread_id and b.id = found.branch_id
        offset 0
    ) b
    where found.thread_id = %(thread_id)s
),
spans as materialized (
    select s.branch_id, least(s.depth, input.depth - %(least)s::integer) as depth, s.n
    from input cross join unnest(input.path, input.path_depths) with ordinality as s (branch_id, depth, n)
    where input.depth - input.window_depth > %(span)s::integer
       or (input.window_depth > 0 and input.depth - input.window_depth < %(least)s::integer)
),
start as (
    select coalesce((
        select m.depth
        from spans s
        cross join lateral (
            select m.depth from messages m
            where m.thread_id = %(thread_id)s and m.branch_id = s.branch_id and m.depth <= s.depth
              and m.role = 'user'
            order by m.depth desc
            limit 1
        ) m
        order by s.n desc
        limit 1
    ), 0) as depth
    where exists (select from spans)
)
update branches b set window_depth = start.depth
from start, input
where b.thread_id = %(thread_id)s and b.id = input.branch_id and b.window_depth <> start.depth

-- name: open_turn_history
-- The messages before the input on its path, from the window's start on: where the run pinned it, else where
-- the branch has it, and at most `most` messages (but the newest turn whole). Every read of messages is a range
-- of their primary key.
with found as materialized (
    select m.thread_id, m.branch_id, m.depth from messages m where m.id = %(input_id)s
),
input as materialized (
    select found.depth, b.path, b.path_depths,
           greatest(case when %(pinned)s::integer is null then b.window_depth else %(pinned)s::integer end,
                    case when %(most)s::integer is null then 0 else found.depth - %(most)s::integer end) as low
    from found
    cross join lateral (
        select b.path, b.path_depths, b.window_depth from branches b
        where b.thread_id = found.thread_id and b.id = found.branch_id
        offset 0
    ) b
    where found.thread_id = %(thread_id)s
),
turn as materialized (
    select m.depth
    from input
    cross join unnest(input.path, input.path_depths) with ordinality as s (branch_id, depth, n)
    cross join lateral (
        select m.depth from messages m
        where m.thread_id = %(thread_id)s and m.branch_id = s.branch_id and m.depth <= least(s.depth, input.depth - 1)
          and m.role = 'user'
        order by m.depth desc
        limit 1
    ) m
    where %(most)s::integer is not null
    order by s.n desc
    limit 1
),
reach as materialized (
    select least(input.low, (select turn.depth from turn)) as low from input
),
ranges as materialized (
    select s.branch_id, least(s.depth, input.depth - 1) as depth, reach.low
    from input cross join reach cross join unnest(input.path, input.path_depths) as s (branch_id, depth)
),
history as (
    select m.*
    from ranges s
    cross join lateral (
        select m.depth, m.id, m.thread_id, m.run_id, m.parent_id, m.role, m.content, m.created_at,
               m.model_output, m.provider_state, m.token_count
        from messages m
        where m.thread_id = %(thread_id)s and m.branch_id = s.branch_id and m.depth between s.low and s.depth
        order by m.depth
        offset 0
    ) m
    where s.depth >= s.low
)
select (select reach.low from reach), coalesce(json_agg(row_to_json(history) order by depth), '[]') from history

-- name: page_of_messages
-- One page of the path that ends in a leaf: depths (after, after + limit]. No row: no such leaf.
with found as materialized (
    select m.thread_id, m.branch_id, m.depth from messages m where m.id = %(leaf_id)s
),
leaf as (
    select found.depth, b.path, b.path_depths
    from found
    cross join lateral (
        select b.path, b.path_depths from branches b
        where b.thread_id = found.thread_id and b.id = found.branch_id
        offset 0
    ) b
    where found.thread_id = %(thread_id)s
),
spans as materialized (
    select s.branch_id, least(s.depth, leaf.depth, %(after)s::integer + %(limit)s::integer) as depth
    from leaf cross join unnest(leaf.path, leaf.path_depths) as s (branch_id, depth)
),
page as (
    select m.*
    from spans s
    cross join lateral (
        select m.depth, m.id, m.thread_id, m.run_id, m.parent_id, m.role, m.content, m.created_at,
               m.model_output, m.token_count
        from messages m
        where m.thread_id = %(thread_id)s and m.branch_id = s.branch_id
          and m.depth > %(after)s::integer and m.depth <= s.depth
        order by m.depth
        offset 0
    ) m
    where s.depth > %(after)s::integer
)
select leaf.depth, (select coalesce(json_agg(row_to_json(page) order by depth), '[]') from page) from leaf

-- name: one_message
with found as materialized (
    select m.* from messages m where m.id = %(message_id)s
)
select row_to_json(found) from found where found.thread_id = %(thread_id)s

-- name: thread_head
-- The newest message is the last one of its branch, so one probe a branch finds it.
select json_build_object(
    'id', t.id, 'owner', t.resource_id, 'agent', t.agent, 'title', t.title, 'metadata', t.metadata,
    'created_at', t.created_at, 'updated_at', greatest(t.updated_at, leaf.created_at),
    'leaf_id', leaf.id, 'last_created_at', leaf.created_at, 'deleted', t.deleted_at is not null)
from threads t
left join lateral (
    select m.id, m.created_at
    from branches b
    cross join lateral (
        select m.id, m.created_at from messages m
        where m.thread_id = b.thread_id and m.branch_id = b.id
        order by m.depth desc
        limit 1
    ) m
    where b.thread_id = t.id
    order by m.created_at desc, m.id desc
    limit 1
) leaf on true
where t.id = %(thread_id)s

-- name: thread_ids
select id from threads where deleted_at is null

-- name: insert_usage
-- include: usage.sql
where exists (select from threads t where t.id = %(thread_id)s and t.deleted_at is null)
on conflict on constraint usage_pkey do update
set (input_tokens, output_tokens, cached_input_tokens, cache_write_input_tokens, reasoning_tokens, cost_usd, at) =
    (excluded.input_tokens, excluded.output_tokens, excluded.cached_input_tokens, excluded.cache_write_input_tokens,
     excluded.reasoning_tokens, excluded.cost_usd, excluded.at)
-- A run that went on since; a late writer takes nothing back.
where usage.kind = 'run' and usage.at < excluded.at

-- name: upsert_snapshot
insert into run_snapshots as s (thread_id, run_id, status, created_at, tree)
select t.id, %(run_id)s, %(status)s, %(created_at)s::timestamptz, %(tree)s::json
from threads t
where t.id = %(thread_id)s and t.deleted_at is null
on conflict on constraint run_snapshots_pkey do update
set status = excluded.status, tree = excluded.tree

-- name: run_tree
-- The messages of a run are rows of their own; its sub-agents' are in the tree alone.
with found as materialized (
    select s.thread_id, s.tree
    from run_snapshots s
    join threads t on t.id = s.thread_id and t.deleted_at is null
    where s.run_id = %(run_id)s
)
select found.thread_id, found.tree, (
    select coalesce(json_agg(row_to_json(m) order by ids.place), '[]')
    from json_array_elements_text(found.tree -> 'message_ids') with ordinality as ids (id, place)
    join messages m on m.id = ids.id and m.thread_id = found.thread_id)
from found
