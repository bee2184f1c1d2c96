begin
    select {set} from {table} as stored where {join_one} into replay.document;
exception when others then
    null;
end;
document := coalesce(replay.document, r.doc);
