case
    when l.state = 'running' and not exists (
{sessions}
    ) then 'crashed'
    else l.state
end
