//! What is measured in runs of its own, because measuring it takes time: pgbench's log, and each statement.

use super::Course;
use crate::limits::{LOG_COST_PAIRS, LOG_COST_SECONDS};
use millstream_local::Progress;

impl Course<'_> {
    /// Measures once how much pgbench's log takes.
    pub(super) async fn log_cost(&mut self, say: Progress<'_>) {
        let source = self.source;
        let arm = source.experiment.twice();
        let setup = source.experiment.setup(arm);
        let conditions = &mut self.record.conditions;
        let known = !conditions.log_ratios.is_empty();
        if known || conditions.quick || setup.scripts.is_none() || self.out.contains_key(&arm.name) {
            return;
        }
        say("measuring what the log of pgbench takes");
        let Ok(ready) = self.stage.ready(&arm.name, &setup, conditions, say).await else { return };
        let Ok(()) = ready.cluster.delay(setup.slow_disk().as_ref()) else { return };
        let Ok(db) = ready.cluster.db(setup.via, &ready.data.name) else { return };
        let mut ratios = Vec::new();
        for pair in 0..LOG_COST_PAIRS {
            // In every other pair the run with the log comes first.
            let mut rates = [0.0; 2];
            for with_log in [pair % 2 == 1, pair % 2 == 0] {
                match ready.program.count((source, &setup, &db), LOG_COST_SECONDS, with_log).await {
                    Ok(Some(tps)) => rates[usize::from(with_log)] = tps,
                    Ok(None) | Err(_) => return,
                }
            }
            ratios.push(rates[1] / rates[0]);
        }
        conditions.log_ratios = ratios;
    }

    /// Measures the mean time of each statement, if the experiment asks for that: `-r` itself takes time.
    pub(super) async fn statements(&mut self, say: Progress<'_>) {
        let source = self.source;
        if !source.experiment.statements {
            return;
        }
        let conditions = &mut self.record.conditions;
        for arm in &source.experiment.arms {
            let setup = source.experiment.setup(arm);
            let known = conditions.statements.contains_key(&arm.name);
            if known || self.out.contains_key(&arm.name) || setup.scripts.is_none() {
                continue;
            }
            say(&format!("{}: measuring its statements", arm.name));
            let Ok(ready) = self.stage.ready(&arm.name, &setup, conditions, say).await else { continue };
            let Ok(()) = ready.cluster.delay(setup.slow_disk().as_ref()) else { continue };
            let Ok(db) = ready.cluster.db(setup.via, &ready.data.name) else { continue };
            if let Ok(summary) = ready.program.statements((source, &setup, &db), conditions.seconds).await {
                conditions.statements.insert(arm.name.clone(), summary.statements);
            }
        }
    }
}
