//! Shows the progress of a run on a terminal.

use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::task::JoinHandle;

use super::world::World;

const EVERY: Duration = Duration::from_millis(200);
const TEMPLATE: &str = "{bar:30} {msg}";

/// A progress bar on standard error. It is hidden if standard error is not a terminal.
pub(super) struct Progress {
    bar: ProgressBar,
    task: JoinHandle<()>,
}

impl Progress {
    pub(super) fn start(world: &Arc<World>) -> Self {
        let total = millis(world.plan.duration.0);
        let style = ProgressStyle::with_template(TEMPLATE);
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::new(total).with_style(style.progress_chars("##-"));
        let task = tokio::spawn(follow(bar.clone(), world.clone()));
        Self { bar, task }
    }

    pub(super) fn finish(self) {
        self.task.abort();
        self.bar.finish_and_clear();
    }
}

async fn follow(bar: ProgressBar, world: Arc<World>) {
    loop {
        let (took, left) = (world.took(), world.left());
        let n_grants = world.tally.acquire.histogram().len();
        let stale = &world.tally.stale_writes;
        bar.set_position(millis(took.min(world.plan.duration.0)));
        let left =
            if left.is_zero() { "closing".into() } else { format!("{}s left", left.as_secs()) };
        bar.set_message(format!(
            "{left}, {n_grants} grants, {:.0}/s, {} of {} stale writes rejected",
            n_grants as f64 / took.as_secs_f64().max(0.001),
            stale.rejected.get(),
            stale.injected.get(),
        ));
        tokio::time::sleep(EVERY).await;
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
