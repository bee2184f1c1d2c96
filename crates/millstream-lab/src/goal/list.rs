//! The goals of the project and the values that they measure.

use super::{Goal, Target};
use crate::data_set::DataSet;
use crate::durability::Durability;
use crate::limits::MEBIBYTE;
use crate::sample::{Sample, number};

pub(super) const fn at_least(must: f64, aim: f64) -> Option<Target> {
    Some(Target { must, aim, at_most: false })
}

pub(super) const fn at_most(must: f64, aim: f64) -> Option<Target> {
    Some(Target { must, aim, at_most: true })
}

pub(super) const INGEST: Goal = Goal {
    name: "new / COPY, random keys",
    target: at_least(1.0, 1.3),
    experiment: "ingest",
    data_set: "random-150",
    of: ("millstream", "fresh"),
    by: Some(("copy", "fresh", Durability::Durable)),
    value: rate,
};

const CHANGED: Goal =
    Goal { name: "third wave / COPY", target: at_least(0.9, 1.3), of: ("millstream", "changed 3"), ..INGEST };

const SIZE: Goal = Goal {
    name: "size of 5 waves / compact",
    target: at_most(1.6, 1.6),
    of: ("millstream", "changed 5"),
    by: Some(("compact", "fresh", Durability::Durable)),
    value: total_bytes,
    ..INGEST
};

const UNCHANGED: Goal =
    Goal { name: "unchanged / COPY", target: at_least(1.5, 2.5), of: ("millstream", "unchanged"), ..INGEST };

const DURABILITY: Goal = Goal {
    name: "durable / unlogged, new",
    target: at_least(0.9, 0.98),
    experiment: "durability",
    by: Some(("millstream", "fresh", Durability::Unlogged)),
    ..INGEST
};

const HOT: Goal = Goal {
    name: "1 hot key / all keys",
    target: at_least(1.5, 3.0),
    experiment: "hot",
    of: ("millstream", "1 key"),
    by: Some(("millstream", "changed", Durability::Durable)),
    ..INGEST
};

const PRODUCERS: Goal = Goal {
    name: "  8 producers, 1 hot key",
    of: ("producers", "1 key"),
    by: Some(("producers", "changed", Durability::Durable)),
    ..HOT
};

const REFUSED: Goal = Goal {
    name: "1 of 10 breaks a CHECK",
    target: at_least(0.33, 0.33),
    experiment: "refused",
    of: ("constraint", "fresh"),
    by: Some(("millstream", "fresh", Durability::Durable)),
    ..INGEST
};

const RIVAL: Goal = Goal {
    name: "/ recipe, new",
    target: at_least(2.0, 4.0),
    experiment: "rivals",
    by: Some(("recipe", "fresh", Durability::Durable)),
    ..INGEST
};

const RIVAL_CHANGED: Goal = Goal {
    name: "/ recipe, changed",
    of: ("millstream", "changed"),
    by: Some(("recipe", "changed", Durability::Durable)),
    ..RIVAL
};

const WAL: Goal = Goal {
    name: "WAL / input, direct COPY",
    target: at_most(2.3, 2.1),
    experiment: "wal",
    by: None,
    value: wal_per_byte,
    ..INGEST
};

const CPU: Goal =
    Goal { name: "client CPU s per 1M, new", target: at_most(1.0, 0.5), by: None, value: cpu_per_million, ..INGEST };

const MEMORY: Goal = Goal {
    name: "client memory, MiB",
    target: at_most(256.0, 128.0),
    experiment: "memory",
    by: None,
    value: peak_mebibytes,
    ..INGEST
};

const GROWTH: Goal = Goal {
    name: "new keys, large / small",
    target: at_least(0.6, 0.85),
    experiment: "growth",
    of: ("millstream", "large, new"),
    by: Some(("millstream", "small, new", Durability::Durable)),
    ..INGEST
};

const APPENDED: Goal = Goal {
    name: "log layout / COPY, new",
    target: at_least(2.0, 2.8),
    experiment: "log",
    of: ("log", "fresh"),
    ..INGEST
};

const MERGED: Goal = Goal {
    name: "  merged / table, repeated",
    target: at_least(1.0, 1.6),
    of: ("merged", "repeated"),
    by: Some(("millstream", "repeated", Durability::Durable)),
    ..APPENDED
};

const PUBLISHED: Goal = Goal {
    name: "8 read indexes / 0, new",
    target: at_least(0.9, 0.97),
    experiment: "published",
    of: ("published", "fresh"),
    by: Some(("millstream", "fresh", Durability::Durable)),
    ..INGEST
};

const REFRESH: Goal = Goal {
    name: "refresh 1 % / matview",
    target: at_most(0.10, 0.03),
    experiment: "refresh",
    of: ("model", "1 %"),
    by: Some(("concurrently", "1 %", Durability::Durable)),
    value: seconds,
    ..INGEST
};

const DISTINCT: Goal = Goal {
    name: "distinct, SQL / select",
    target: at_least(80.0, 120.0),
    experiment: "distinct",
    data_set: "sequential-150",
    of: ("function", "large"),
    by: Some(("select", "large", Durability::Durable)),
    ..INGEST
};

const FIRST_ROW: Goal =
    Goal { name: "  first row, ms", target: at_most(10.0, 5.0), by: None, value: first_milliseconds, ..DISTINCT };

const DISTINCT_LARGE: Goal = Goal {
    name: "  10M / 1M, time",
    target: at_most(2.0, 1.5),
    by: Some(("function", "small", Durability::Durable)),
    value: seconds,
    ..DISTINCT
};

/// Every goal, in the order of the report.
pub(super) const GOALS: &[Goal] = &[
    INGEST,
    Goal { name: "new / COPY, sequential", target: at_least(0.9, 1.1), data_set: "sequential-150", ..INGEST },
    CHANGED,
    Goal { name: "  third wave, first order", experiment: "order", ..CHANGED },
    SIZE,
    Goal { name: "  size, first order", experiment: "order", ..SIZE },
    UNCHANGED,
    Goal { name: "  unchanged, first order", experiment: "order", ..UNCHANGED },
    DURABILITY,
    HOT,
    Goal { name: "100 hot keys / all keys", of: ("millstream", "100 keys"), ..HOT },
    PRODUCERS,
    Goal { name: "  8 producers, 100", of: ("producers", "100 keys"), ..PRODUCERS },
    REFUSED,
    Goal { name: "  a trigger", of: ("trigger", "fresh"), ..REFUSED },
    Goal { name: "  --check", of: ("check", "fresh"), ..REFUSED },
    RIVAL,
    RIVAL_CHANGED,
    Goal { name: "/ pipelined, new", by: Some(("pipelined", "fresh", Durability::Durable)), ..RIVAL },
    Goal { name: "/ pipelined, changed", by: Some(("pipelined", "changed", Durability::Durable)), ..RIVAL_CHANGED },
    Goal {
        name: "/ \\copy + merge, new",
        target: at_least(1.3, 2.5),
        by: Some(("merge", "fresh", Durability::Durable)),
        ..RIVAL
    },
    Goal {
        name: "/ \\copy + merge, changed",
        target: at_least(1.3, 2.5),
        by: Some(("merge", "changed", Durability::Durable)),
        ..RIVAL_CHANGED
    },
    WAL,
    Goal { name: "  page images in it", target: None, value: images_per_byte, ..WAL },
    Goal { name: "WAL / input, staged", target: at_most(2.9, 2.6), of: ("millstream", "staged"), ..WAL },
    Goal { name: "  page images in it", target: None, of: ("millstream", "staged"), value: images_per_byte, ..WAL },
    CPU,
    Goal { name: "  third wave", of: ("millstream", "changed 3"), ..CPU },
    MEMORY,
    Goal { name: "  16 MiB documents", data_set: "random-16777216", ..MEMORY },
    GROWTH,
    Goal {
        name: "  stored keys",
        target: None,
        of: ("millstream", "large, stored"),
        by: Some(("millstream", "small, stored", Durability::Durable)),
        ..GROWTH
    },
    APPENDED,
    MERGED,
    PUBLISHED,
    Goal {
        name: "  changed",
        of: ("published", "changed"),
        by: Some(("millstream", "changed", Durability::Durable)),
        ..PUBLISHED
    },
    Goal { name: "  8 on the table, new", target: None, of: ("indexed", "fresh"), ..PUBLISHED },
    Goal {
        name: "  changed",
        target: None,
        of: ("indexed", "changed"),
        by: Some(("millstream", "changed", Durability::Durable)),
        ..PUBLISHED
    },
    REFRESH,
    Goal {
        name: "  all",
        target: at_most(0.25, 0.12),
        of: ("model", "all"),
        by: Some(("concurrently", "all", Durability::Durable)),
        ..REFRESH
    },
    DISTINCT,
    FIRST_ROW,
    DISTINCT_LARGE,
    Goal { name: "  by its statement", of: ("walk", "large"), ..DISTINCT },
    Goal { of: ("walk", "large"), ..FIRST_ROW },
    Goal { of: ("walk", "large"), by: Some(("walk", "small", Durability::Durable)), ..DISTINCT_LARGE },
    // The time of the command includes the start of a process and of a session; that of `select` includes neither.
    Goal { name: "  by the command", target: None, of: ("distinct", "large"), ..DISTINCT },
    Goal { target: None, of: ("distinct", "large"), ..FIRST_ROW },
];

fn rate(one: &Sample, _: &DataSet) -> Option<f64> {
    one.rows_per_second()
}

fn seconds(one: &Sample, _: &DataSet) -> Option<f64> {
    Some(one.measures()?.timing.wall_seconds)
}

fn first_milliseconds(one: &Sample, _: &DataSet) -> Option<f64> {
    Some(one.measures()?.timing.first_seconds? * 1e3)
}

fn total_bytes(one: &Sample, _: &DataSet) -> Option<f64> {
    Some(number(one.measures()?.size?.total_bytes()))
}

fn wal_per_byte(one: &Sample, set: &DataSet) -> Option<f64> {
    Some(number(one.measures()?.wal_bytes?) / input_bytes(one, set))
}

fn images_per_byte(one: &Sample, set: &DataSet) -> Option<f64> {
    Some(number(one.measures()?.page_image_bytes?) / input_bytes(one, set))
}

fn input_bytes(one: &Sample, set: &DataSet) -> f64 {
    number(one.rows * set.document_bytes as u64)
}

fn cpu_per_million(one: &Sample, _: &DataSet) -> Option<f64> {
    Some(one.measures()?.timing.client_cpu_seconds? / number(one.rows) * 1e6)
}

fn peak_mebibytes(one: &Sample, _: &DataSet) -> Option<f64> {
    Some(number(one.measures()?.timing.client_peak_bytes?) / MEBIBYTE)
}
