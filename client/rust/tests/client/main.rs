// SPDX-License-Identifier: GPL-2.0-or-later

//! The client without a daemon, with hostile ones, and with userevd of the folder in the environment variable B.

mod alone;
mod daemon;
mod hostile;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use userev::Connection;

/// A folder of a test's own, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("userev-rust-{}-{}", process::id(), COUNT.fetch_add(1, Relaxed));
        let path = env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Tests run in several threads, which have one environment.
fn at<T>(socket: &Path, open: impl FnOnce() -> T) -> T {
    static ENVIRONMENT: Mutex<()> = Mutex::new(());
    let _lock = ENVIRONMENT.lock().unwrap_or_else(PoisonError::into_inner);
    env::set_var("USEREV_SOCKET", socket);
    open()
}

fn open(socket: &Path) -> Connection {
    at(socket, || Connection::open().unwrap())
}

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < end, "not in a minute: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
