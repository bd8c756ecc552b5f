-- Behind `found`, a message's place: the path that ends there.
leaf as materialized (
    select found.thread, found.branch_id, found.depth, b.thread_id, b.path, b.path_depths
    from found
    cross join lateral (
        select b.thread_id, b.path, b.path_depths from branches b
        where b.thread_id = %(thread_id)s and b.id = found.branch_id
        offset 0
    ) b
    where found.thread = (select t.key from threads t where t.id = %(thread_id)s)
),
spans as materialized (
    select leaf.thread_id, leaf.thread, s.branch_id, least(s.depth, leaf.depth) as depth
    from leaf cross join unnest(leaf.path, leaf.path_depths) as s (branch_id, depth)
)
