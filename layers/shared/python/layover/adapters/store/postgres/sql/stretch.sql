with found as materialized (
    select m.thread, m.branch_id, m.depth, m.run_id from messages m where m.id = %(through_id)s
),
-- include: path.sql
,
-- Where a stretch of that path begins: behind one of its messages, or with the root.
start as materialized (
    select m.depth
    from (
        select m.thread, m.branch_id, m.depth from messages m where m.id = %(after_id)s::text offset 0
    ) m
    join spans s on s.thread = m.thread and s.branch_id = m.branch_id and m.depth <= s.depth
    union all
    select -1 where %(after_id)s::text is null
)
