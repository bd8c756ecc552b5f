with found as materialized (
    select m.thread, m.branch_id, m.depth from messages m where m.id = %(leaf_id)s
),
-- include: path.sql
,
-- include: deepest.sql
,
-- What a prompt shows: the generation that the run has pinned (0: none), else the deepest one.
shown as materialized (
    select c.generation, c.through_depth, c.chain from compactions c
    where c.thread_id = %(thread_id)s and c.generation = %(pinned)s::integer
    union all
    select d.generation, d.through_depth, d.chain from deepest d where %(pinned)s::integer is null
),
behind as materialized (
    select coalesce(max(shown.through_depth), -1) as depth from shown
)
