if unfit is null then
    begin
        judged := ({value}) is null;
    exception when others then
        unfit := {name};
    end;
end if;
