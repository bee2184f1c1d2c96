select device,
       count(*) as readings,
       round(avg((doc->>'temperature')::numeric), 2) as mean_temperature,
       count(*) filter (where doc->>'state' = 'alarm') as alarms
  from public.demo_telemetry
 group by device
 order by readings desc, device
 limit 5
