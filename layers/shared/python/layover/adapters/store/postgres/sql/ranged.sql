-- Of `ranges` (thread_id, thread, branch_id; depths behind `before` up to `last`): their messages. A parent that is
-- not stored is the message before it on its branch: each range is read from one message earlier.
ranged as (
    select m.*
    from ranges r
    cross join lateral (
        select m.depth, m.id, r.thread_id, {m.messages}, {m.unseen}, m.provider_state,
               coalesce(m.parent_id, lag(m.id) over (order by m.depth)) as parent_id
        from messages m
        where m.thread = r.thread and m.branch_id = r.branch_id and m.depth >= r.before and m.depth <= r.last
        order by m.depth
        offset 0
    ) m
    where m.depth > r.before and r.before < r.last
)
