if tombstones then
    {lock}
    into replay.tried;
end if;
