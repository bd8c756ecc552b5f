with listed as (
    select distinct on (i.id) i.* from rows from (
        json_to_recordset(%(messages)s::json) as (
            id text, parent_id text, {messages:types}, {unseen:types}, provider_state json)
    ) with ordinality as i (id, parent_id, {messages}, {unseen}, provider_state, n)
    order by i.id, i.n
),
incoming as (
    select l.id, l.parent_id, {l.messages}, {l.unseen}, l.provider_state,
           row_number() over chain as n, lag(l.id) over chain as before_id
    from listed l
    window chain as (order by l.n)
),
