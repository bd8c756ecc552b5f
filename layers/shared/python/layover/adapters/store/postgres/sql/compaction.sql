-- Generations of observations and summaries. Which one counts is a question of a path, answered by range
-- predicates; writes come behind `lock_thread` in their pipeline, so a comparison holds until its transaction ends.

-- name: place_window
-- With a compaction mode, the recent window of a turn begins behind what its prompt shows as compacted.
-- include: shown.sql
update branches b set window_depth = behind.depth + 1
from behind
where b.thread_id = %(thread_id)s and b.id = (select leaf.branch_id from leaf)
  and b.window_depth <> behind.depth + 1

-- name: compacted
-- What a prompt shows, the observations of its whole chain, the slices behind it (those of the path, and those that
-- end with a later message of the run), and the messages that the chain does not stand for. No row: there is no such
-- message.
-- include: shown.sql
,
linked as materialized (
    select link.n, c.generation, c.after_depth, c.through_depth, c.left_out, c.taken
    from shown
    cross join unnest(shown.chain) with ordinality as link (generation, n)
    cross join lateral (
        select * from compactions c where c.thread_id = %(thread_id)s and c.generation = link.generation offset 0
    ) c
),
left_out as materialized (
    select l.id from linked cross join unnest(linked.left_out) as l (id)
    except
    select l.id from linked cross join unnest(linked.taken) as l (id)
),
slices as materialized (
    select c.generation
    from behind
    cross join spans s
    cross join lateral (
        select c.generation from compactions c
        where c.thread_id = %(thread_id)s and c.branch_id = s.branch_id and c.kind = 'observations'
          and c.after_depth >= behind.depth and c.after_depth < s.depth and c.through_depth <= s.depth
          and not c.active
        order by c.after_depth, c.through_depth
        limit %(most)s::integer
    ) c
    union all
    select c.generation
    from leaf
    cross join lateral (
        select c.generation, c.thread_id, c.branch_id from compactions c
        where c.thread_id = %(thread_id)s and c.run_id = %(run_id)s::text and not c.active
          and c.through_depth > leaf.depth
        order by c.after_depth, c.through_depth
        limit %(most)s::integer
    ) c
    cross join lateral (
        select b.path, b.path_depths from branches b
        where b.thread_id = c.thread_id and b.id = c.branch_id
        offset 0
    ) b
    where exists (
        select from unnest(b.path, b.path_depths) as s (branch_id, depth)
        where s.branch_id = leaf.branch_id and s.depth >= leaf.depth)
)
select (
    select g.told from shown
    cross join lateral (
        select * from compactions c where c.thread_id = %(thread_id)s and c.generation = shown.generation offset 0
    ) c
-- include: generation.sql
), (
    select coalesce(json_agg(json_build_object(
        'id', o.id, 'at', o.observed_at, 'marker', o.marker, 'text', o.content, 'parent_id', o.parent_id)
        order by link.n, o.position), '[]')
    from shown
    cross join unnest(shown.chain) with ordinality as link (generation, n)
    cross join lateral (
        select * from observations o where o.thread_id = %(thread_id)s and o.generation = link.generation offset 0
    ) o
), (
    select coalesce(json_agg(json_build_object(
        'after_depth', linked.after_depth, 'through_depth', linked.through_depth, 'observations', (
            select count(*) from observations o
            where o.thread_id = %(thread_id)s and o.generation = linked.generation))
        order by linked.n), '[]')
    from linked
), (
    select coalesce(json_agg(g.told), '[]') from slices
    cross join lateral (
        select * from compactions c where c.thread_id = %(thread_id)s and c.generation = slices.generation offset 0
    ) c
-- include: generation.sql
), (
    select coalesce(json_agg(row_to_json(stayed) order by stayed.depth), '[]')
    from (
        select m.depth, m.id, %(thread_id)s::text as thread_id, {m.messages}, {m.unseen}, m.provider_state,
-- include: parent.sql
        from left_out
        cross join lateral (
            select * from messages m where m.id = left_out.id offset 0
        ) m
        where m.thread = leaf.thread
    ) stayed
)
from leaf

-- name: span
-- include: stretch.sql
,
ranges as materialized (
    select s.thread_id, s.thread, s.branch_id, start.depth as before, s.depth as last
    from start cross join spans s
),
-- include: ranged.sql
,
stretch as (
    select depth, id, thread_id, parent_id, {messages}, {unseen} from ranged
)
select start.depth, leaf.depth,
       (select coalesce(json_agg(row_to_json(stretch) order by depth), '[]') from stretch)
from leaf cross join start

-- name: add_slice
-- Nothing where the path's cursor is beyond the start, or where the path has a slice from there.
-- include: stretch.sql
,
-- include: deepest.sql
,
allowed as materialized (
    select from leaf cross join start
    where start.depth < leaf.depth
      and not exists (select from deepest d where d.through_depth > start.depth)
      and not exists (
          select from spans s
          cross join lateral (
              select from compactions c
              where c.thread_id = %(thread_id)s and c.branch_id = s.branch_id and c.kind = 'observations'
                and c.after_depth = start.depth and c.through_depth <= s.depth
              offset 0
          ) c)
),
-- include: store.sql
select from made

-- name: activate
-- All of the slices, if they make a chain behind the deepest generation of the last one's path and that is the
-- expected one; else none.
with numbered as materialized (
    select n.generation::integer, n.n from json_array_elements_text(%(numbers)s::json) with ordinality
        as n (generation, n)
),
given as materialized (
    select c.thread, c.generation, c.branch_id, c.after_depth, c.through_depth, n.n
    from numbered n
    cross join lateral (
        select * from compactions c where c.thread_id = %(thread_id)s and c.generation = n.generation offset 0
    ) c
    where c.kind = 'observations' and not c.active
),
found as materialized (
    select g.thread, g.branch_id, g.through_depth as depth from given g order by g.n desc limit 1
),
-- include: path.sql
,
-- include: deepest.sql
,
linked as materialized (
    select from given g
    left join given before on before.n = g.n - 1
    left join deepest d on true
    having count(*) = (select count(*) from numbered)
       and bool_and(g.after_depth = coalesce(before.through_depth, d.through_depth, -1))
       and bool_and(exists (
           select from spans s where s.branch_id = g.branch_id and g.through_depth <= s.depth))
       and max(d.generation) is not distinct from %(expected)s::integer
)
update compactions c
set active = true, activated_by = %(id)s,
    chain = coalesce((select d.chain from deepest d), '{}')
        || array(select b.generation from given b where b.n <= g.n order by b.n)
from given g, linked
where c.thread_id = %(thread_id)s and c.generation = g.generation
  and c.generation = any(array(select given.generation from given))
  and exists (select from threads t where t.id = %(thread_id)s and t.deleted_at is null)

-- name: activated
select from compactions c
where c.thread_id = %(thread_id)s and c.generation = %(generation)s::integer and c.activated_by = %(id)s

-- name: replace_generation
-- A reflection ends where the expected generation ends, a summary behind it. What a reflection leaves out is
-- superseded.
-- include: stretch.sql
,
-- include: deepest.sql
,
allowed as materialized (
    select from leaf
    cross join start
    left join deepest d on true
    where start.depth < leaf.depth
      and d.generation is not distinct from %(expected)s::integer
      and case %(kind)s::text
              when 'reflection' then d.through_message_id = %(through_id)s
              else d.generation is null or d.through_depth < leaf.depth
          end
),
-- include: store.sql
-- By its own array: joined with the chain, a planner without statistics reads all of a thread's.
update observations o set superseded = true
from made
where %(kind)s::text = 'reflection' and o.thread_id = %(thread_id)s
  and o.generation = any(array(select unnest(d.chain) from deepest d))
  and o.id not in (select n.id from json_to_recordset(%(observations)s::json) as n (id text))

-- name: stored_generation
select g.told from compactions c
-- include: generation.sql
where c.thread_id = %(thread_id)s and c.id = %(id)s

-- name: generations
-- All of a path, each with whether a prompt shows it: it is in the chain of its mode's deepest one.
with found as materialized (
    select m.thread, m.branch_id, m.depth from messages m where m.id = %(leaf_id)s
),
-- include: path.sql
,
listed as materialized (
    select c.*
    from spans s
    join compactions c on c.branch_id = s.branch_id and c.through_depth <= s.depth
    where c.thread_id = %(thread_id)s
),
shown as materialized (
    select distinct on (l.mode) l.chain from listed l
    where l.active
    order by l.mode, l.through_depth desc, l.generation desc
)
select g.told, exists (select from shown where c.generation = any(shown.chain))
from listed c
-- include: generation.sql
order by c.generation

-- name: gone
-- Of messages and entries, of whatever threads.
select coalesce(json_agg(w.id order by w.n), '[]')
from json_array_elements_text(%(ids)s::json) with ordinality as w (id, n)
where not exists (select from messages m where m.id = w.id and not m.refused)
  and not exists (select from memory_entries e where e.id = w.id)
