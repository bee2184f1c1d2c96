if tombstones then
    {lock}
    into walk.tried;
end if;
