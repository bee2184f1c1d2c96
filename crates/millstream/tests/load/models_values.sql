-- Types whose input raises errors that are no data exceptions, for texts of more than one letter.
create function public.raises(text) returns boolean language plpgsql immutable as
$$ begin if length($1) > 1 then raise exception 'too long'; end if; return true; end $$;
create domain public.raising as text check (public.raises(value));
create function public.asserts(text) returns boolean language plpgsql immutable as
$$ begin assert coalesce(length($1), 1) = 1; return true; end $$;
create domain public.asserting as text check (public.asserts(value));
-- As the input functions of some extensions do.
create function public.breaks(text) returns boolean language plpgsql immutable as
$$ begin if length($1) > 1 then raise exception 'parse error' using errcode = 'internal_error'; end if; return true; end $$;
create domain public.internal as text check (public.breaks(value));
create type public.paired as (a public.raising, b public.raising);
