if tombstones then
    if comparing then
        {unchanged}
        comparing := false;
    end if;
    {lock}
    into walk.tried;
end if;
