//! Rows for people.

use super::row::Row;

pub(super) fn heading() -> String {
    format!(
        "{:<20} {:>7}  {:<6} {:<6} {:>10} {:>9} {:>9} {:>9} {:>10}  {:>16} {:>10} {:>7} {:>8}  {}\n",
        "workload",
        "threads",
        "by",
        "cohort",
        "records/s",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "max us",
        "records/barrier",
        "barriers/s",
        "CPU us",
        "written",
        "verified"
    )
}

pub(super) fn line(row: &Row) -> String {
    let workload = match row.rate_per_s {
        Some(rate) => format!("{} {rate:.0}/s", row.workload),
        None => row.workload.to_owned(),
    };
    let per_barrier = match (row.records_per_barrier, row.records_per_barrier_max) {
        (Some(mean), Some(largest)) => format!("{mean:.1} (<= {largest})"),
        _ => "-".to_owned(),
    };
    let or_dash = |figure: Option<f64>, decimals: usize| {
        figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.decimals$}"))
    };
    format!(
        "{workload:<20} {:>7}  {:<6} {:<6} {:>10.0} {:>9.1} {:>9.1} {:>9.1} {:>10.1}  {per_barrier:>16} {:>10} {:>7.2} {:>8}  {}\n",
        row.threads,
        row.strategy,
        row.cohort,
        row.records_per_s,
        row.p50_us,
        row.p99_us,
        row.p999_us,
        row.max_us,
        or_dash(row.barriers_per_s, 0),
        row.cpu_us_per_record,
        or_dash(row.written_per_appended_byte, 2),
        if row.verified { "yes" } else { "NO" },
    )
}
