{bar}
if tombstones then
    {delete}
    into replay.gone, replay.held;
    {undeleted}
    {remember}
    held := greatest(held - gone, 0);
end if;
{merge}
into replay.added, replay.changed;
if tombstones then
    {reset}
    into replay.more_added, replay.more_changed;
    added := added + more_added;
    changed := changed + more_changed;
end if;
