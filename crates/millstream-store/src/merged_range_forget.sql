-- Forgets which ranges of groups are merged, if no segment of the group is left.
delete from {schema}.merged_range as merged
where merged.compaction = any ($1)
  and not exists (select from {schema}.segment as left_over where left_over.compaction = merged.compaction)
