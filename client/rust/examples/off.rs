// SPDX-License-Identifier: CC0-1.0

//! What an event costs while it is off: `cargo run --release --example off`.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

userev::event! { off_example(status: u32, ns: u64, path: &str) }

static FLAG: AtomicBool = AtomicBool::new(false);

/// A function that emits an event, and nothing else: its machine code is what the event costs.
#[no_mangle]
#[inline(never)]
pub fn visit(status: u32) {
    userev::emit!(off_example, status, 4000, "/favicon.ico");
}

/// The least that is possible: one load, of a flag that another thread would have to keep up to date.
#[no_mangle]
#[inline(never)]
pub fn visit_flag(status: u32) {
    if FLAG.load(Relaxed) {
        off_example.emit(status, 4000, "/favicon.ico");
    }
}

fn nanoseconds(what: impl Fn(u32)) -> f64 {
    const TIMES: u32 = 20_000_000;
    let run = || {
        let began = Instant::now();
        (0..TIMES).for_each(&what);
        began.elapsed().as_nanos() as f64 / f64::from(TIMES)
    };
    (0..3).map(|_| run()).fold(f64::MAX, f64::min)
}

fn main() {
    FLAG.store(std::env::args().count() > 9, Relaxed);
    visit(404); // registers it
    let (event, flag) = (nanoseconds(visit), nanoseconds(visit_flag));
    println!("an event that is off: {event:.2} ns; a flag of the program: {flag:.2} ns; ratio {:.2}", event / flag);
}
