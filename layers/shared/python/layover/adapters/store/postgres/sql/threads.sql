-- Threads and their messages. Row security gives every query its owner; the column's default writes it.
--
-- Two habits keep plans to index ranges whatever the statistics say (tests/integration/postgres/test_reads.py):
--   * A message is found by its id only; its thread is compared behind a fence (materialized, offset 0).
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
insert into threads as t (id, agent, title, {threads}, created_at, updated_at)
values (%(id)s, %(agent)s, %(title)s, {threads:values}, %(created_at)s::timestamptz, %(updated_at)s::timestamptz)
on conflict on constraint threads_pkey do update
set title = coalesce(excluded.title, t.title), {threads:excluded}, updated_at = excluded.updated_at,
    agent = excluded.agent
where t.deleted_at is null
  and excluded.updated_at >= t.updated_at
  and (coalesce(excluded.title, t.title), excluded.agent, {excluded.threads})
      is distinct from (t.title, t.agent, {t.threads})

-- name: insert_messages
-- A chain of messages, each the child of the one before. What is there already stays. The rest goes behind
-- the last one that is there (or behind the parent of the first): into its branch where that place is
-- free, else into a new branch whose path is cut at it. A parent that is missing starts a new root.
-- Behind `upsert_thread`: under its lock nobody else adds an id of this thread.
-- include: chain.sql
alive as (
    select t.key from threads t where t.id = %(thread_id)s and t.deleted_at is null
),
-- include: insert_chain.sql

-- name: import_messages
-- As `insert_messages`, for a chain that begins at a depth. Nothing is written where something else is at that
-- depth or behind it, or where its parent is not just before it.
-- include: chain.sql
alive as (
    select t.key from threads t
    where t.id = %(thread_id)s and t.deleted_at is null
      and not exists (
          select from messages m
          where m.thread = t.key and m.depth >= %(offset)s::integer
            and m.id not in (select incoming.id from incoming))
      and case when %(offset)s::integer = 0 then %(parent_id)s::text is null
               else exists (
                   select from messages m
                   where m.thread = t.key and m.depth = %(offset)s::integer - 1 and m.id = %(parent_id)s) end
),
-- include: insert_chain.sql

-- name: count_messages
-- Those of the thread.
select count(*)
from json_array_elements_text(%(ids)s::json) as i (id)
cross join lateral (
    select m.thread from messages m where m.id = i.id offset 0
) m
where m.thread = (select t.key from threads t where t.id = %(thread_id)s and t.deleted_at is null)

-- name: fill_places
-- The results that have come take the places that were kept for them. Behind `upsert_thread`.
update messages m
set ({messages}, {unseen}, provider_state) = ({i.messages}, {i.unseen}, i.provider_state)
from json_to_recordset(%(messages)s::json) as i (
    id text, parent_id text, {messages:types}, {unseen:types}, provider_state json)
where m.id = i.id and m.role = 'tool' and m.content::text = '[]'
  and m.thread = (select t.key from threads t where t.id = %(thread_id)s and t.deleted_at is null)

-- name: refuse_messages
-- Messages that are refused, of whatever runs. Recall finds them no more. Behind `upsert_thread`.
with places as materialized (
    select f.thread, f.branch_id, f.depth
    from json_array_elements_text(%(ids)s::json) as i (id)
    cross join lateral (
        select m.thread, m.branch_id, m.depth from messages m where m.id = i.id offset 0
    ) f
    where f.thread = (select t.key from threads t where t.id = %(thread_id)s and t.deleted_at is null)
),
forgotten as (
    delete from message_embeddings e using places p
    where e.thread = p.thread and e.branch_id = p.branch_id and e.depth = p.depth
)
update messages m set refused = true
from places p
where m.thread = p.thread and m.branch_id = p.branch_id and m.depth = p.depth and not m.refused

-- name: move_window
-- The window outgrew `span` messages (or the agent wants more than it has): it begins at the last user
-- message that leaves `least` before the input. Else nothing is written.
with found as materialized (
    select m.thread, m.branch_id, m.depth from messages m where m.id = %(input_id)s
),
input as materialized (
    select found.thread, found.branch_id, found.depth, b.path, b.path_depths, b.window_depth
    from found
    cross join lateral (
        select b.path, b.path_depths, b.window_depth from branches b
        where b.thread_id = %(thread_id)s and b.id = found.branch_id
        offset 0
    ) b
    where found.thread = (select t.key from threads t where t.id = %(thread_id)s)
),
spans as materialized (
    select input.thread, s.branch_id, least(s.depth, input.depth - %(least)s::integer) as depth, s.n
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
            where m.thread = s.thread and m.branch_id = s.branch_id and m.depth <= s.depth and m.role = 'user'
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
    select m.thread, m.branch_id, m.depth from messages m where m.id = %(input_id)s
),
input as materialized (
    select found.thread, found.depth, b.thread_id, b.path, b.path_depths,
           greatest(case when %(pinned)s::integer is null then b.window_depth else %(pinned)s::integer end,
                    case when %(most)s::integer is null then 0 else found.depth - %(most)s::integer end) as low
    from found
    cross join lateral (
        select b.thread_id, b.path, b.path_depths, b.window_depth from branches b
        where b.thread_id = %(thread_id)s and b.id = found.branch_id
        offset 0
    ) b
    where found.thread = (select t.key from threads t where t.id = %(thread_id)s)
),
turn as materialized (
    select m.depth
    from input
    cross join unnest(input.path, input.path_depths) with ordinality as s (branch_id, depth, n)
    cross join lateral (
        select m.depth from messages m
        where m.thread = input.thread and m.branch_id = s.branch_id and m.depth <= least(s.depth, input.depth - 1)
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
    select input.thread_id, input.thread, s.branch_id, reach.low - 1 as before,
           least(s.depth, input.depth - 1) as last
    from input cross join reach cross join unnest(input.path, input.path_depths) as s (branch_id, depth)
),
-- include: ranged.sql
select (select reach.low from reach), coalesce(json_agg(row_to_json(ranged) order by depth), '[]') from ranged

-- name: page_of_messages
-- One page of the path that ends in a leaf: depths (after, after + limit]. No row: no such leaf.
with found as materialized (
    select m.thread, m.branch_id, m.depth from messages m where m.id = %(leaf_id)s
),
-- include: path.sql
,
ranges as materialized (
    select s.thread_id, s.thread, s.branch_id, %(after)s::integer as before,
           least(s.depth, %(after)s::integer + %(limit)s::integer) as last
    from spans s
),
-- include: ranged.sql
,
page as (
    select depth, id, thread_id, parent_id, {messages}, {unseen} from ranged
)
select leaf.depth, (select coalesce(json_agg(row_to_json(page) order by depth), '[]') from page) from leaf

-- name: newest_messages
-- The last messages of the path that ends in a leaf. None: no such leaf.
with found as materialized (
    select m.thread, m.branch_id, m.depth from messages m where m.id = %(leaf_id)s
),
-- include: path.sql
,
ranges as materialized (
    select s.thread_id, s.thread, s.branch_id, leaf.depth - %(limit)s::integer as before, s.depth as last
    from spans s cross join leaf
),
-- include: ranged.sql
,
page as (
    select depth, id, thread_id, parent_id, {messages}, {unseen} from ranged
)
select coalesce(json_agg(row_to_json(page) order by depth), '[]') from page

-- name: one_message
with found as materialized (
    select m.* from messages m where m.id = %(message_id)s
)
select row_to_json(m)
from (
    select m.id, %(thread_id)s::text as thread_id, {m.messages}, {m.unseen}, m.provider_state,
-- include: parent.sql
    from found m
    where m.thread = (select t.key from threads t where t.id = %(thread_id)s)
) m

-- name: thread_head
-- The newest message is the last one of its branch, so one probe a branch finds it.
select json_build_object(
    'id', t.id, 'owner', t.resource_id, 'agent', t.agent, 'title', t.title, {t.threads:pairs},
    'created_at', t.created_at, 'updated_at', greatest(t.updated_at, leaf.created_at),
    'leaf_id', leaf.id, 'last_created_at', leaf.created_at, 'deleted', t.deleted_at is not null)
from threads t
left join lateral (
    select m.id, m.created_at
    from branches b
    cross join lateral (
        select m.id, m.created_at from messages m
        where m.thread = t.key and m.branch_id = b.id
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
-- Of background work.
-- include: usage.sql
where exists (select from threads t where t.id = %(thread_id)s and t.deleted_at is null)
on conflict on constraint usage_pkey do nothing

-- name: save_usage
-- A run's own rows, and its tree on the first of them. Behind `upsert_thread`: under its lock nobody else writes the
-- run's rows, so no insert has to announce itself for others to see its conflict.
with given as materialized (
    select u.* from json_to_recordset(%(usage)s::json) as u (
        step text, agent text, model text, {usage:types}, cost_usd numeric, at timestamptz, tree json)
    where exists (select from threads t where t.id = %(thread_id)s and t.deleted_at is null)
),
renewed as (
    update usage u
    set ({usage}, cost_usd, at, tree) = ({given.usage}, given.cost_usd, given.at, coalesce(given.tree, u.tree))
    from given
    where u.run_id = %(run_id)s and u.step = given.step and u.kind = 'run'
      -- A run that went on since; a late writer takes nothing back.
      and (u.at < given.at
           or u.at = given.at and given.tree is not null and given.tree::text is distinct from u.tree::text)
)
insert into usage (run_id, step, kind, agent, model, {usage}, cost_usd, at, tree)
select %(run_id)s, given.step, 'run', given.agent, given.model, {given.usage}, given.cost_usd, given.at, given.tree
from given
where not exists (select from usage u where u.run_id = %(run_id)s and u.step = given.step)

-- name: upsert_snapshot
-- The tree of a run without usage.
insert into run_snapshots as s (thread_id, run_id, tree)
select t.id, %(run_id)s, %(tree)s::json
from threads t
where t.id = %(thread_id)s and t.deleted_at is null
on conflict on constraint run_snapshots_pkey do update set tree = excluded.tree

-- name: run_tree
-- The messages of a run are rows; its sub-agents' are in the tree only. A tree names the run's last
-- message and their number, and its thread is that message's; one of before version 3 names them all.
with spent as materialized (
    select u.* from usage u where u.run_id = %(run_id)s and u.tree is not null order by u.at desc limit 1
),
trees as materialized (
    select s.tree, json_build_object(
               'agent', s.agent, 'model', s.model, {s.usage:pairs}, 'cost_usd', s.cost_usd::text, 'at', s.at) as spent,
           s.tree #>> '{messages,0}' as leaf_id, null as thread_id
    from spent s
    union all
    select s.tree, null, s.tree #>> '{messages,0}', s.thread_id from run_snapshots s
    where s.run_id = %(run_id)s and not exists (select from spent)
),
found as materialized (
    select m.thread, m.branch_id, m.depth
    from trees
    cross join lateral (
        select m.thread, m.branch_id, m.depth, m.run_id from messages m where m.id = trees.leaf_id offset 0
    ) m
    where m.run_id = %(run_id)s
),
homes as materialized (
    select t.id, t.key
    from trees
    cross join lateral (
        select t.id, t.key from threads t where t.id = trees.thread_id and t.deleted_at is null
        union all
        select t.id, t.key from found join threads t on t.key = found.thread
        where trees.thread_id is null and t.deleted_at is null
    ) t
),
ranges as materialized (
    select homes.id as thread_id, homes.key as thread, s.branch_id,
           found.depth - (trees.tree #>> '{messages,1}')::integer as before, least(s.depth, found.depth) as last
    from trees
    cross join homes
    join found on found.thread = homes.key
    cross join lateral (
        select b.path, b.path_depths from branches b where b.thread_id = homes.id and b.id = found.branch_id offset 0
    ) b
    cross join unnest(b.path, b.path_depths) as s (branch_id, depth)
),
-- include: ranged.sql
,
listed as (
    select m.*
    from trees
    cross join homes
    cross join json_array_elements_text(coalesce(trees.tree -> 'message_ids', '[]')) with ordinality as ids (id, depth)
    cross join lateral (
        select ids.depth, m.id, homes.id as thread_id, {m.messages}, {m.unseen}, m.provider_state, m.thread,
-- include: parent.sql
        from messages m where m.id = ids.id offset 0
    ) m
    where m.thread = homes.key
)
select homes.id, trees.tree, trees.spent, (
    select coalesce(json_agg(message order by depth), '[]')
    from (
        select depth, row_to_json(ranged) as message from ranged
        union all
        select depth, row_to_json(listed) from listed
    ) m)
from trees cross join homes
