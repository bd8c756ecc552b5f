-- Behind `spans`, a path: its deepest active generation, by one probe a branch.
deepest as materialized (
    select c.*
    from spans s
    cross join lateral (
        select c.generation, c.through_depth, c.through_message_id, c.chain from compactions c
        where c.thread_id = %(thread_id)s and c.mode = %(mode)s::text and c.active
          and c.branch_id = s.branch_id and c.through_depth <= s.depth
        order by c.through_depth desc, c.generation desc
        limit 1
    ) c
    order by c.through_depth desc, c.generation desc
    limit 1
)
