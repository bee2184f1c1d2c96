{bar}
if tombstones then
    {delete}
    into walk.gone, walk.held;
    {remember}
    held := greatest(held - gone, 0);
end if;
{merge}
into walk.added, walk.changed;
if tombstones then
    {reset}
    into walk.more_added, walk.more_changed;
    added := added + more_added;
    changed := changed + more_changed;
end if;
