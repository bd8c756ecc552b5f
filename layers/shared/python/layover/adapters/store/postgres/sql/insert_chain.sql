anchor as (
    select * from (
        (select m.branch_id, m.depth, i.id, i.n
         from incoming i
         cross join lateral (
             select m.thread, m.branch_id, m.depth from messages m where m.id = i.id offset 0
         ) m
         where m.thread = (select alive.key from alive))
        union all
        (select m.branch_id, m.depth, i.parent_id, 0
         from incoming i
         cross join lateral (
             select m.thread, m.branch_id, m.depth from messages m where m.id = i.parent_id offset 0
         ) m
         where i.n = 1 and m.thread = (select alive.key from alive))
    ) found
    order by n desc
    limit 1
),
place as (
    select alive.key, a.id, a.branch_id, coalesce(a.n, 0) as n,
           -- None, which no message may have, where the parent of the first is unknown.
           coalesce(a.depth, (select -1 from incoming i where i.n = 1 and i.parent_id is null)) as depth,
           a.branch_id is not null and not exists (
               select from messages m
               where m.thread = alive.key and m.branch_id = a.branch_id and m.depth = a.depth + 1
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
-- A parent that is the message before on the same branch is not stored: the place tells it.
insert into messages (thread, branch_id, depth, id, parent_id, {messages}, {unseen}, provider_state)
select place.key, coalesce(fork.id, place.branch_id), place.depth + i.n - place.n, i.id,
       case when i.n = place.n + 1 and fork.id is not null then i.parent_id
            else nullif(i.parent_id, coalesce(i.before_id, place.id)) end,
       {i.messages}, {i.unseen}, i.provider_state
from place
left join fork on true
join incoming i on i.n > place.n
order by i.n
