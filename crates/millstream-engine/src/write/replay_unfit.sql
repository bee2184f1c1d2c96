-- A value that a typed column cannot hold: the server does not say of which.
if code like '22%' then
    document := r.doc;
    {merged}
    {search}
end if;
