//! `copy --postgres`: a whole PostgreSQL cluster, copied while it runs.

use super::{CopyArgs, home, watched};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::quantity::{self, things};
use crate::receipt::counts;
use crate::signal::Signals;
use crate::target;
use millstream_copy::{ClusterPlan, ClusterReceipt, ClusterRequest, copy_cluster, plan_cluster};
use millstream_host::{PRIVATE, make_ours};
use millstream_model::Refusal;
use std::path::PathBuf;

/// How many unlogged tables are printed; all are counted.
const UNLOGGED_SHOWN_MAX: usize = 10;

/// Reads `OLD=NEW`. As for `pg_basebackup`, a backslash stands before a `=` of a path.
pub fn mapping(text: &str) -> Result<(PathBuf, PathBuf), String> {
    // No argument holds a zero byte.
    let hidden = text.replace("\\=", "\0");
    let parts: Vec<String> = hidden.split('=').map(|part| part.replace('\0', "=")).collect();
    match &parts[..] {
        [old, new] if !old.is_empty() && !new.is_empty() => Ok((old.into(), new.into())),
        _ => Err("expected OLD=NEW, two absolute paths; write \\= for a = in a path".to_owned()),
    }
}

/// Runs the command.
pub async fn run(url: &str, args: &CopyArgs, output: Output, signals: &Signals) -> Result<Exit, Failure> {
    // Without a source, the only path is the destination.
    let destination = match (&args.source, &args.destination) {
        (Some(destination), None) => destination.clone(),
        _ => {
            return Err(Failure::user("with --postgres there is one path, the destination")
                .hint("the server says where its data is: millstream copy --postgres URL DESTINATION"));
        }
    };
    let conninfo = target::named_by(url, "--postgres")?;
    let home = home()?;
    make_ours(&home, PRIVATE).map_err(Refusal::from)?;
    let request = ClusterRequest {
        destination,
        tablespaces: args.tablespace.clone(),
        standby: args.standby.clone(),
        shell: args.ssh.clone(),
        compress: args.compress,
        workers: args.workers,
        bytes_per_second: args.bandwidth.map(|size| size.bytes as u64),
        home,
    };
    if args.dry_run {
        let plan = plan_cluster(&conninfo, &request).await?;
        output.print(&plan, &plan_text(&plan, "would copy"))?;
        return Ok(Exit::Done);
    }
    let (watched, tally) = watched(args.progress, signals);
    let copied = copy_cluster(&conninfo, &request, &tally).await;
    let stopped = watched.finish();
    let receipt = copied?;
    output.print(&receipt, &receipt_text(&receipt))?;
    if let Some(exit) = stopped.filter(|_| receipt.stopped) {
        note("stopped: what was copied is no cluster; the same command goes on from it");
        return Ok(exit);
    }
    Ok(Exit::Done)
}

fn plan_text(plan: &ClusterPlan, verb: &str) -> String {
    let bytes = quantity::bytes(plan.bytes);
    let mut lines = vec![format!("{verb} {} to {}: databases of {bytes}", plan.source, plan.destination)];
    lines.extend(plan.tablespaces.iter().map(|moved| format!("  tablespace {} to {}", moved.from, moved.to)));
    if !plan.unlogged.is_empty() {
        lines.push(format!(
            "  empty in the copy, because they are unlogged: {}",
            things(plan.unlogged.len() as u64, "table")
        ));
        lines.extend(plan.unlogged.iter().take(UNLOGGED_SHOWN_MAX).map(|name| format!("    {name}")));
        let more = plan.unlogged.len().saturating_sub(UNLOGGED_SHOWN_MAX);
        lines.extend((more > 0).then(|| format!("    and {more} more")));
    }
    lines.extend(plan.notes.iter().map(|note| format!("  {note}")));
    lines.join("\n")
}

fn receipt_text(receipt: &ClusterReceipt) -> String {
    let mut lines = vec![plan_text(&receipt.plan, "receipt of the copy of")];
    let columns = [
        ("seen", receipt.seen, "files, folders and links"),
        ("copied", receipt.copied, "copied"),
        ("same", receipt.same, "with the same bytes there already"),
        ("skipped", receipt.skipped, "gone before their turn came; WAL has what became of them"),
        ("deleted", receipt.deleted, "of an earlier copy, deleted"),
        ("wal", receipt.wal_files, "files of WAL"),
    ];
    lines.extend(counts(columns, &["seen"]));
    lines.push(format!(
        "  {} in {:.2} s: {}/s, {}",
        quantity::bytes(receipt.copied_bytes),
        receipt.seconds,
        quantity::byte_rate(receipt.copied_bytes, receipt.seconds),
        things(receipt.workers as u64, "worker"),
    ));
    if !receipt.stopped {
        lines.push(format!("  recovery begins at {} and is consistent at {}", receipt.start_lsn, receipt.stop_lsn));
    }
    if let Some(slot) = &receipt.slot {
        lines.push(format!(
            "  the slot {slot} keeps WAL on the server until the standby has it; the standby's primary_conninfo has no \
             password"
        ));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_has_two_paths_which_may_hold_what_divides_them() {
        let of =
            |text: &str| mapping(text).ok().map(|(old, new)| (old.display().to_string(), new.display().to_string()));
        for (text, old, new) in [
            ("/a=/b", "/a", "/b"),
            ("/a\\=b=/c", "/a=b", "/c"),
            ("/a=/b\\=\\=", "/a", "/b=="),
            ("/a\\b=/c", "/a\\b", "/c"),
        ] {
            assert_eq!(of(text), Some((old.to_owned(), new.to_owned())), "{text}");
        }
        for text in ["/a", "=/a", "/a=", "/a=/b=/c", "/a\\=/b"] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
