    update memory_entries e set superseded_by = n.id
    from json_to_recordset(%(entries)s::json) as r (hash text, supersedes json)
    join entered n using (hash)
    cross join json_array_elements_text(r.supersedes) as old (id)
    where e.id = old.id and e.id <> n.id and e.agent = %(agent)s and e.superseded_by is null
