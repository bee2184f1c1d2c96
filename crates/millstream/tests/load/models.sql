-- A type whose check is a fault of the value, and one whose check is a fault of the server.
create domain public.positive as integer check (value > 0);
create function public.starved(integer) returns boolean language plpgsql immutable as
$$ begin raise exception 'no memory for this' using errcode = 'out_of_memory'; end $$;
create domain public.greedy as integer check (public.starved(value));
