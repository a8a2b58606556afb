//! Divides the file descriptors of the process among connections, uploads and downloads. Each of these uses one.

use leasehold_base::runtime::BLOCKING_THREADS_MAX;
use leasehold_engine::archive;

use super::Settings;
use crate::content;
use crate::http;

/// Open files of the server itself with its queries of history, and of each thread that serves connections with the
/// threads that work on files for it.
const OWN: usize = 64 + archive::QUERIES_MAX * archive::FILES_PER_QUERY;
const PER_WORKER: usize = 4 + BLOCKING_THREADS_MAX;
/// Minimum files that can be written at the same time, if there are enough descriptors for all connections.
const UPLOADS_MIN: usize = 64;
/// Minimum descriptors for connections and files; with fewer the server does not start.
const LEAST: usize = 32;
/// If there are too few descriptors, these fractions are for restricted connections, for uploads, for downloads, for
/// lingering connections, and for copies, moves and removals of folders.
const RESERVED_SHARE: usize = 4;
const UPLOADS_SHARE: usize = 8;
const DOWNLOADS_SHARE: usize = 8;
const LINGERING_SHARE: usize = 16;
const TREES_SHARE: usize = 8;

/// Returns how many open files a server with these settings might need.
pub fn files_needed(http: &http::Options) -> usize {
    let connections = http.connections_max.saturating_add(http.connections_reserved);
    let connections = connections.saturating_add(http.lingering_max);
    let files = http.downloads_max.saturating_add(of_trees(http));
    connections.saturating_add(files).saturating_add(own(http) + UPLOADS_MIN)
}

/// Files that copies, moves and removals of folders have open.
fn of_trees(http: &http::Options) -> usize {
    http.tree_operations_max.saturating_mul(content::OPEN_FILES_MAX)
}

fn own(http: &http::Options) -> usize {
    OWN + PER_WORKER * http.n_workers()
}

impl Settings {
    /// Fits the settings to this limit of open files. If it is too low, lowers the number of connections and returns a
    /// warning; connections that renew and release keep their share.
    pub fn fit_open_files(&mut self, n_files: usize) -> Result<Option<String>, String> {
        fit(&mut self.http, n_files)
    }
}

fn fit(http: &mut http::Options, n_files: usize) -> Result<Option<String>, String> {
    let (needed, own) = (files_needed(http), own(http));
    if n_files >= needed {
        http.uploads_max = n_files - needed + UPLOADS_MIN;
        return Ok(None);
    }
    let left = n_files.saturating_sub(own);
    if left < LEAST {
        return Err(format!(
            "the limit is {n_files} open files, but a server needs at least {}; raise the limit (LimitNOFILE in the \
             unit, ulimit -n)",
            own + LEAST
        ));
    }
    http.connections_reserved = http.connections_reserved.min(left / RESERVED_SHARE);
    http.uploads_max = left / UPLOADS_SHARE;
    http.downloads_max = http.downloads_max.min(left / DOWNLOADS_SHARE);
    http.lingering_max = http.lingering_max.min(left / LINGERING_SHARE);
    let left = left - http.connections_reserved - http.uploads_max - http.downloads_max;
    http.tree_operations_max =
        http.tree_operations_max.min((left / TREES_SHARE / content::OPEN_FILES_MAX).max(1));
    let left = left - http.lingering_max - of_trees(http);
    let wanted = http.connections_max;
    http.connections_max = wanted.min(left);
    Ok(Some(format!(
        "the limit is {n_files} open files, but the server can need {needed}; accepting at most {} connections \
         instead of {wanted} (connections-max) and sending at most {} files (downloads-max). Raise the limit \
         (LimitNOFILE={needed} in the unit, ulimit -n)",
        http.connections_max, http.downloads_max
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> http::Options {
        http::Options { workers: 2, ..http::Options::default() }
    }

    #[test]
    fn connections_files_and_the_reserve_fit_into_the_open_files() {
        let needed = files_needed(&options());
        for n_files in [200, 256, 1024, 4096, needed - 1, needed, 20_000, 1 << 20] {
            let mut http = options();
            let told = fit(&mut http, n_files).expect("enough");
            assert_eq!(told.is_none(), n_files >= needed);
            let shares = [
                http.connections_max,
                http.connections_reserved,
                http.uploads_max,
                http.downloads_max,
                http.lingering_max,
                of_trees(&http),
            ];
            let used = shares.iter().sum::<usize>() + own(&http);
            assert!(used <= n_files && shares.iter().all(|n| *n > 0), "{n_files}: {http:?}");
        }
        let refused = fit(&mut options(), 100);
        assert!(refused.is_err_and(|why| why.contains("the limit is 100 open files")));
    }
}
